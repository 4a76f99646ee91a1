import { join } from 'node:path'
import { SYSTEM_FOLDERS } from '../../platform/disk/folders.ts'
import type { Command, Release } from '../runtime.ts'

/** Every process of a release carries its id under this name; it is how strays are found. */
export const RELEASE_MARKER = 'FAIRLEAD_DEPLOYMENT_ID'

export const sourceOf = (release: Pick<Release, 'directory'>): string => join(release.directory, 'source')
export const homeOf = (release: Pick<Release, 'appDirectory'>): string => join(release.appDirectory, 'home')
export const temporaryFolderOf = (release: Pick<Release, 'appDirectory'>): string => join(release.appDirectory, 'tmp')

/** What builds have downloaded before; it may be cleared away between any two. */
export const cacheOf = (release: Pick<Release, 'appDirectory'>): string => join(release.appDirectory, 'cache')

/** Names the folder of the cache to the package managers of the toolchain. */
export const CACHE_VARIABLE = 'FAIRLEAD_CACHE'

/** The folders that commands are looked for in. Ours come before the app's, so that `npm` and `node` are the server's. */
export const searchPath = (release: Pick<Release, 'directory'>, bin: string): string[] => [
  bin,
  join(sourceOf(release), 'node_modules', '.bin'),
  join(sourceOf(release), '.venv', 'bin'),
  ...SYSTEM_FOLDERS,
]

/**
 * The whole environment of a command, built from nothing: the server's own variables never reach an app.
 * The app's variables win over defaults and over the operator's; what the platform depends on wins over the app's.
 *
 * @param options.port present at a start only; builds see no `PORT`
 * @param options.operator the operator's variables; present at builds only, which have a cache (see `prepareBin`)
 */
export function commandEnvironment(
  release: Release,
  command: Command,
  options: { readonly bin: string; readonly port?: number; readonly operator?: Readonly<Record<string, string>> },
): Record<string, string> {
  const { PORT: _, ...chosen }: Record<string, string> = {
    LANG: 'C.UTF-8',
    NODE_ENV: 'production',
    ...(options.operator === undefined ? {} : { PIP_CACHE_DIR: join(cacheOf(release), 'pip') }),
    ...options.operator,
    ...command.env,
    ...release.variables,
  }
  return {
    ...chosen,
    ...(options.port === undefined ? {} : { PORT: String(options.port) }),
    ...(options.operator === undefined ? {} : { [CACHE_VARIABLE]: cacheOf(release) }),
    PATH: searchPath(release, options.bin).join(':'),
    HOME: homeOf(release),
    TMPDIR: temporaryFolderOf(release),
    [RELEASE_MARKER]: release.id,
  }
}
