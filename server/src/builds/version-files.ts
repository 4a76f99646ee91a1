import type { SourceTree } from './tree.ts'

const linesOf = (text: string): string[] =>
  text
    .replace(/^\uFEFF/, '')
    .split(/\r\n|\r|\n/)
    .map((line) => line.replace(/#.*/, '').trim())
    .filter((line) => line !== '')

/** Returns the version in a file such as `.nvmrc`: its first line that is not a comment. */
export const versionIn = (files: SourceTree, name: string): string | undefined => linesOf(files.read(name) ?? '')[0]

/**
 * Returns the version of a program in `.tool-versions` (asdf's format), such as `1.22.1` in `golang 1.22.1`. Ignores
 * further versions on a line, which are fallbacks.
 *
 * @param names the names of the program, which have differed between plugins
 */
export function toolVersion(files: SourceTree, ...names: readonly string[]): string | undefined {
  const lines = linesOf(files.read('.tool-versions') ?? '').map((line) => line.split(/\s+/))
  return lines.find(([name = '']) => names.includes(name))?.[1]
}
