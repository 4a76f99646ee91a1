import type { SourceTree } from '../../source/tree.ts'
import { type Program, programsOf } from '../lines/programs.ts'

/** A line without the files of variables that are not there. */
export interface WithoutEnvFile {
  readonly line: string
  readonly files: readonly string[]
}

/**
 * Returns a script's line without `--env-file`s that the repository does not have; null where there are none. Node ends at
 * such an option, and the file holds secrets that belong in no repository: the app's variables take its place.
 *
 * @param scripts of package.json; one that names the file may be what makes it
 */
export function withoutEnvFile(
  line: string,
  scripts: ReadonlyMap<string, string>,
  tree: SourceTree,
): WithoutEnvFile | null {
  const isMissing = (file: string) => !tree.has(file.replace(/^\.\//, '')) && !isMade(file, scripts)
  const found = programsOf(line, scripts)
    .filter(({ isOnly }) => isOnly)
    .map((program) => ({ program, ...split(program, isMissing) }))
    .filter(({ files }) => files.length > 0)
  const [first] = found
  if (first === undefined) return null
  const text = found.toReversed().reduce((rest, { program, kept }) => replaced(rest, program, kept), first.program.line)
  return { line: text, files: [...new Set(found.flatMap(({ files }) => files))] }
}

const readers: ReadonlySet<string> = new Set(['node', 'nodejs', 'tsx'])

/** Scripts that run before the start. */
const before = ['preinstall', 'install', 'postinstall', 'prepare', 'prebuild', 'build', 'postbuild', 'prestart']

const isMade = (file: string, scripts: ReadonlyMap<string, string>): boolean =>
  before.some((name) => scripts.get(name)?.includes(file) === true)

/** Returns the words to keep, as they are written, and the files that the others name. */
function split(
  { name, args, written }: Program,
  isMissing: (file: string) => boolean,
): { readonly kept: readonly string[]; readonly files: readonly string[] } {
  const kept: string[] = []
  const files: string[] = []
  for (let at = 0; at < args.length; at++) {
    const [, value] = /^--env-file(?:=(.*))?$/s.exec(args[at] ?? '') ?? [undefined, null]
    const file = value === null ? undefined : (value ?? args[at + 1])
    if (readers.has(name) && file !== undefined && isMissing(file)) {
      files.push(file)
      if (value === undefined) at++
    } else kept.push(written[at] ?? '')
  }
  return { kept, files }
}

const replaced = (line: string, { name, from, to }: Program, words: readonly string[]): string =>
  `${line.slice(0, from)}${[name, ...words].join(' ')}${line.slice(to)}`.trim()
