import type { SourceTree } from './tree.ts'

/** Returns the lines of a text without comments and blank ones. */
const linesOf = (text: string): string[] =>
  text
    .replace(/^\uFEFF/, '')
    .split(/\r\n|\r|\n/)
    .map((line) => line.replace(/#.*/, '').trim())
    .filter((line) => line !== '')

/** Returns the version that a file such as `.nvmrc` names: its first line that is no comment. */
export const versionIn = (files: SourceTree, name: string): string | undefined => linesOf(files.read(name) ?? '')[0]

/**
 * Returns the version that `.tool-versions` names for a program (asdf's format), such as `1.22.1` in `golang 1.22.1`. A line may
 * name further ones to fall back to, which do not count.
 *
 * @param names the names of the program, which have differed between plugins
 */
export function toolVersion(files: SourceTree, ...names: readonly string[]): string | undefined {
  const lines = linesOf(files.read('.tool-versions') ?? '').map((line) => line.split(/\s+/))
  return lines.find(([name = '']) => names.includes(name))?.[1]
}
