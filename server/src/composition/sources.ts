import { createAccountStore } from '../accounts/accounts.ts'
import {
  createSourceExpiry,
  createSourceFiles,
  createUploadSource,
  type SourceExpiry,
  type UploadDependencies,
} from '../deployments/uploads.ts'
import type { HandlersOf } from '../http/call.ts'
import { assertRoom } from '../platform/disk/free-space.ts'
import type { FileRule } from '../sources/sources.ts'
import type { Composition, RequestTurns } from './composition.ts'

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
