import type { BuiltRelease } from '../built-release.ts'
import type { LocalRelease } from './release/layout.ts'

/**
 * Returns what an image of a release is made of.
 *
 * @param shared the programs that all releases have
 * @param own the folder that comes first on its PATH, and those of programs that it asks for in other versions
 */
export function builtRelease(
  { paths, user }: Pick<LocalRelease, 'paths' | 'user'>,
  shared: readonly string[],
  own: { readonly bin: string; readonly folders: readonly string[] },
): BuiltRelease {
  const { source, home, temporary, passwd, group } = paths
  return {
    place: { source, home, temporary, bin: own.bin },
    user: user ?? { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 },
    programs: [...new Set([...shared, own.bin, ...own.folders])],
    accounts: user === null ? null : { passwd, group },
  }
}
