import { join } from 'node:path'
import type { Command } from '../../../platform/command.ts'
import { SYSTEM_FOLDERS } from '../../../platform/disk/folders.ts'
import type { LocalRelease, ReleasePaths } from './layout.ts'

/** Every process of a release carries its id in this variable, by which strays are found. */
export const RELEASE_MARKER = 'FAIRLEAD_DEPLOYMENT_ID'

/** Tells the package managers of the toolchain where the build's cache is. */
export const CACHE_VARIABLE = 'FAIRLEAD_CACHE'

/** Differs between the commands of a release. */
export type CommandScope =
  /** A build: it has a cache and the operator's variables, such as a registry, and no `PORT`. */
  | { readonly kind: 'build'; readonly operator: Readonly<Record<string, string>> }
  | { readonly kind: 'app'; readonly port: number }

/**
 * Returns the folders that commands are looked up in. The server's own come before the app's, so that `npm` and `node`
 * are the server's.
 *
 * @param bin the folder that `prepareBin` has filled
 */
export const searchPath = ({ source }: Pick<ReleasePaths, 'source'>, bin: string): string[] => [
  bin,
  join(source, 'node_modules', '.bin'),
  join(source, '.venv', 'bin'),
  ...SYSTEM_FOLDERS,
]

/**
 * Returns the whole environment of a command, built from nothing: the server's own variables never reach an app. The
 * app's variables win over defaults and over the operator's; variables that the platform depends on win over the app's.
 *
 * @param bin the folder that `prepareBin` has filled
 */
export function commandEnvironment(
  release: Pick<LocalRelease, 'id' | 'paths' | 'variables'>,
  command: Pick<Command, 'env' | 'caches'>,
  scope: CommandScope,
  bin: string,
): Record<string, string> {
  const { paths } = release
  const { PORT: _, ...chosen }: Record<string, string> = {
    LANG: 'C.UTF-8',
    NODE_ENV: 'production',
    ...(scope.kind === 'build' ? { ...cacheFolders(command, paths), ...scope.operator } : {}),
    ...command.env,
    ...release.variables,
  }
  return {
    ...chosen,
    ...(scope.kind === 'build' ? { [CACHE_VARIABLE]: paths.cache } : { PORT: String(scope.port) }),
    PATH: searchPath(paths, bin).join(':'),
    HOME: paths.home,
    TMPDIR: paths.temporary,
    [RELEASE_MARKER]: release.id,
  }
}

function cacheFolders({ caches = {} }: Pick<Command, 'caches'>, { cache }: Pick<ReleasePaths, 'cache'>) {
  return Object.fromEntries(Object.entries(caches).map(([name, folder]) => [name, join(cache, folder)]))
}
