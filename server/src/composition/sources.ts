import { join } from 'node:path'
import { type Caches, createCaches } from '../platform/disk/caches.ts'
import type { Outbound } from '../platform/outbound.ts'
import { appCacheFolders } from '../runtimes/process/release/layout.ts'
import { createGit } from '../sources/git.ts'
import { createGitCache, gitCacheFolders } from '../sources/git-cache.ts'
import { createSources, type Sources } from '../sources/sources.ts'
import type { Composition } from './composition.ts'

const cachesOf = (gitDirectory: string): string => join(gitDirectory, 'caches')

/** Makes the caches that all downloads share: repositories, and the packages of apps. */
export function composeCaches({ config, state: { directory } }: Composition): Caches {
  return createCaches({
    mostEachBytes: config.deploys.mostEachCacheBytes,
    mostAllBytes: config.deploys.mostAllCachesBytes,
    list: async () => [...(await gitCacheFolders(cachesOf(directory.git))), ...(await appCacheFolders(directory.apps))],
  })
}

export async function composeSources(
  { config, state: { directory } }: Composition,
  caches: Caches,
  outbound: Outbound,
): Promise<Sources> {
  return createSources({
    git: await createGit({
      directory: directory.git,
      path: config.path,
      allowFile: config.localMode,
      useOwnSshKeys: config.localMode,
      environment: config.deploys.environment,
    }),
    cache: createGitCache({ directory: cachesOf(directory.git), caches }),
    outbound,
    allowFile: config.localMode,
  })
}
