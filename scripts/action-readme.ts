import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parse } from 'yaml'

/** Writes the tables of action/README.md from action.yml: `node scripts/action-readme.ts`. A test checks that they match. */

interface Metadata {
  readonly inputs: Readonly<Record<string, { description: string; required?: boolean; default?: string }>>
  readonly outputs: Readonly<Record<string, { description: string }>>
}

const metadataFile = fileURLToPath(new URL('../action.yml', import.meta.url))
const readmeFile = fileURLToPath(new URL('../action/README.md', import.meta.url))

/** Returns the README with new tables between its markers. */
export function withTables(readme: string, metadata: string): string {
  const { inputs, outputs } = parse(metadata) as Metadata
  const inputRows = Object.entries(inputs).map(([name, input]) => [
    `\`${name}\``,
    input.required ? 'required' : input.default === undefined ? '' : `\`${input.default}\``,
    input.description,
  ])
  const outputRows = Object.entries(outputs).map(([name, { description }]) => [`\`${name}\``, description])
  return between(
    between(readme, 'inputs', table(['input', 'default', 'meaning'], inputRows)),
    'outputs',
    table(['output', 'meaning'], outputRows),
  )
}

function table(heading: readonly string[], rows: readonly (readonly string[])[]): string {
  return [heading, heading.map(() => '---'), ...rows].map((cells) => `| ${cells.join(' | ')} |`).join('\n')
}

function between(text: string, name: string, content: string): string {
  const [start, end] = [`<!-- ${name} of action.yml -->\n`, `\n<!-- end of ${name} -->`]
  const from = text.indexOf(start)
  const to = text.indexOf(end)
  if (from < 0 || to < from) throw new Error(`README.md has no markers for the ${name}`)
  return text.slice(0, from + start.length) + content + text.slice(to)
}

if (import.meta.main) {
  writeFileSync(readmeFile, withTables(readFileSync(readmeFile, 'utf8'), readFileSync(metadataFile, 'utf8')))
}
