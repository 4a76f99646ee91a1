import { join } from 'node:path'
import type { Caches } from '../platform/disk/caches.ts'
import type { Outbound } from '../platform/outbound.ts'
import type { Confined } from '../platform/sandbox/confined.ts'
import { createGit } from './git.ts'
import { createGitCache, gitCacheFolders } from './git-cache.ts'
import { createSources, type Sources } from './sources.ts'

export interface SourcesParts {
  /** The folder of git in the data directory. */
  readonly directory: string
  /** Runs git. */
  readonly confined: Confined
  /** The environment of git. */
  readonly environment: Readonly<Record<string, string>>
  /** The socket of the ssh agent of the user who runs the server; null without one. */
  readonly sshAgent: string | null
  /** The most bytes of a commit. */
  readonly mostSourceBytes: number
  readonly caches: Pick<Caches, 'use'>
  /** The addresses that the server may connect to for tenants. */
  readonly outbound: Outbound
}

/** Prepares git, and opens the sources of releases: repositories, and uploaded packs. */
export async function openSources(parts: SourcesParts): Promise<Sources> {
  const { directory, confined, mostSourceBytes, outbound } = parts
  const { user } = confined
  return createSources({
    git: await createGit({
      directory,
      confined,
      environment: parts.environment,
      sshAgent: parts.sshAgent,
      mostFileBytes: mostSourceBytes,
    }),
    cache: createGitCache({ directory: cachesOf(directory), user, caches: parts.caches }),
    outbound,
    checkOut: { user, mostBytes: mostSourceBytes },
  })
}

/**
 * Lists the caches of repositories.
 *
 * @param directory the folder of git in the data directory
 */
export const repositoryCacheFolders = (directory: string): Promise<string[]> => gitCacheFolders(cachesOf(directory))

const cachesOf = (directory: string): string => join(directory, 'caches')
