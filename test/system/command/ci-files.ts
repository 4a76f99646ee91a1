import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parse } from 'yaml'

/** A CI file and its trust rule, as in `docs/ci.md`. */
export interface CiFile {
  readonly file: unknown
  /** The arguments of `fairlead trust add`. */
  readonly rule: readonly string[]
}

const text = readFileSync(fileURLToPath(new URL('../../../docs/ci.md', import.meta.url)), 'utf8')

/** Reads a CI's file and its rule. */
export function ciFile(name: string): CiFile {
  const block = (kind: string) =>
    new RegExp(`<!-- ${kind}: ${name} -->\n\`\`\`\\w+\n([\\s\\S]*?)\`\`\``).exec(text)?.[1] ?? ''
  return { file: parse(block('file')), rule: block('rule').trim().split(/\s+/).slice(3) }
}

/** The names of all files of the page. */
export const ciNames: readonly string[] = [...text.matchAll(/<!-- file: (\w+) -->/g)].map(([, name = '']) => name)

/** Returns the value of a flag of a rule. */
export const flagOf = (rule: readonly string[], flag: string): string | undefined =>
  rule.includes(flag) ? rule[rule.indexOf(flag) + 1] : undefined
