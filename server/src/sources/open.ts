import { join } from 'node:path'
import type { Caches } from '../platform/disk/caches.ts'
import type { Outbound } from '../platform/outbound.ts'
import type { Confined } from '../platform/sandbox/confined.ts'
import { createGit } from './git.ts'
import { createGitCache, gitCacheFolders } from './git-cache.ts'
import { createSources, type Sources } from './sources.ts'

export interface SourcesParts {
  readonly directory: string
  readonly confined: Confined
  readonly environment: Readonly<Record<string, string>>
  /** The socket of the ssh agent of the user who runs the server; null without an agent. */
  readonly sshAgent: string | null
  readonly mostSourceBytes: number
  readonly caches: Pick<Caches, 'use'>
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

export const repositoryCacheFolders = (directory: string): Promise<string[]> => gitCacheFolders(cachesOf(directory))

const cachesOf = (directory: string): string => join(directory, 'caches')
