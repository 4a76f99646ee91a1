import { basename, dirname, join } from 'node:path'
import { createAccountStore } from '../accounts/accounts.ts'
import {
  createSourceExpiry,
  createSourceFiles,
  createUploadSource,
  type SourceExpiry,
  type UploadDependencies,
} from '../deployments/uploads.ts'
import type { HandlersOf } from '../http/call.ts'
import { type Caches, createCaches } from '../platform/disk/caches.ts'
import { assertRoom } from '../platform/disk/free-space.ts'
import type { Outbound } from '../platform/outbound.ts'
import type { Confined } from '../platform/sandbox/confined.ts'
import { listHomes } from '../runtimes/docker/dockerfiles/daemon-record.ts'
import { appCacheFolders } from '../runtimes/process/release-folders.ts'
import { toolFolders, toolsOfReleases } from '../runtimes/process/toolchain/record.ts'
import { createGit } from '../sources/git.ts'
import { createGitCache, gitCacheFolders } from '../sources/git-cache.ts'
import { createSources, type FileRule, type Sources } from '../sources/sources.ts'
import type { Composition, RequestTurns } from './composition.ts'

const cachesOf = (gitDirectory: string): string => join(gitDirectory, 'caches')

/** Creates the caches: repositories, packages of apps, image layers, and programs that apps request. */
export function composeCaches({ config, state: { directory } }: Composition): Caches {
  return createCaches({
    mostEachBytes: config.deploys.mostEachCacheBytes,
    mostAllBytes: config.deploys.mostAllCachesBytes,
    list: async () => [
      ...(await gitCacheFolders(cachesOf(directory.git))),
      ...(await appCacheFolders(directory.apps)),
      ...(await listHomes(directory.imageBuilds)),
      ...(await toolFolders(directory.tools)),
    ],
    // Kept releases need their programs even when the registry is unreachable.
    isKept: async (path) =>
      dirname(path) === directory.tools && (await toolsOfReleases(directory.apps)).has(basename(path)),
  })
}

/** The rights of an account to resources of the server machine. */
export interface AccountRights {
  /** The local repositories that deployments of the account may read. */
  filesFor(accountId: string): FileRule
  /** True when deployments of the account may use the ssh agent of the user who runs the server. */
  mayUseAgent(accountId: string): boolean
}

/** In local mode, the operator may deploy repositories of the machine, which belongs to the operator. */
export async function composeAccountRights({
  config,
  state,
}: Pick<Composition, 'config' | 'state'>): Promise<AccountRights> {
  const operatorId = await createAccountStore({ database: state.db }).ensureOperator()
  const isOwner = (accountId: string): boolean => config.localMode && accountId === operatorId
  return {
    filesFor: (accountId) => ({
      everywhere: isOwner(accountId),
      below: config.deploys.fileSources,
      dataDirectory: state.directory.root,
    }),
    mayUseAgent: isOwner,
  }
}

export async function composeSources(
  { config, state: { directory } }: Composition,
  caches: Caches,
  outbound: Outbound,
  confined: Confined,
): Promise<Sources> {
  const { user } = confined
  const { mostSourceBytes, environment } = config.deploys
  return createSources({
    git: await createGit({
      directory: directory.git,
      confined,
      environment,
      sshAgent: config.sshAgent,
      mostFileBytes: mostSourceBytes,
    }),
    cache: createGitCache({ directory: cachesOf(directory.git), user, caches }),
    outbound,
    checkOut: { user, mostBytes: mostSourceBytes },
  })
}

export function composeUploads(
  { config, state, logger }: Composition,
  given: Pick<UploadDependencies, 'totals' | 'holdProject'> & RequestTurns,
): HandlersOf<'sources'> {
  const upload = createUploadSource({
    ...given,
    database: state.db,
    files: createSourceFiles({ directory: state.directory.sources }),
    plans: config.plans,
    assertRoom: () => assertRoom(state.directory.root, config.deploys.reserveBytes),
    mostSourceBytes: config.deploys.mostSourceBytes,
    idleTimeoutMs: config.uploadIdleTimeoutMs,
    logger,
  })
  return { 'sources.create': ({ project, request, audit }) => upload({ project, message: request.message, audit }) }
}

/** Creates the leader's removal of uploaded sources. */
export function leadUploads({ config, state }: Composition): SourceExpiry {
  return createSourceExpiry({
    database: state.db,
    files: createSourceFiles({ directory: state.directory.sources }),
    days: config.deploys.sourceRetentionDays,
  })
}
