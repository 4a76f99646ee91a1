import { randomUUID } from 'node:crypto'
import type { Middleware } from 'koa'
import type { HandlersOf } from '../../http/call.ts'
import type { Totals } from '../../platform/account-limits.ts'
import type { Announce } from '../../platform/announce.ts'
import { createBackground } from '../../platform/background.ts'
import type { DataDirectory } from '../../platform/data-directory.ts'
import type { BatchedRead } from '../../platform/database/batcher.ts'
import type { RequestTransactions } from '../../platform/database/request-transactions.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import { assertRoom } from '../../platform/disk/free-space.ts'
import type { LeaderParts } from '../../platform/leadership/leader-parts.ts'
import type { Logger } from '../../platform/logger.ts'
import { startPeriodic } from '../../platform/periodic.ts'
import type { Plans } from '../../platform/plans.ts'
import { hasEnded, traceOfThisProcess } from '../../platform/processes.ts'
import type { SecretBox } from '../../platform/secrets.ts'
import { finishTimeoutMs, type ShutdownStack } from '../../platform/shutdown.ts'
import { createSlots, type Slots } from '../../platform/slots.ts'
import { createFileAddresses } from './addresses.ts'
import { createDiskStore } from './disk-store.ts'
import { downloads } from './download.ts'
import { createFiles, removeProjectFiles } from './files.ts'
import { storageHandlers } from './handlers.ts'
import { createPendingFiles, maintenanceMs, type PendingFiles } from './pending.ts'
import type { ServerStart } from './reservations.ts'
import type { FileStore } from './store.ts'

export interface StorageParts {
  readonly database: Database
  readonly secrets: SecretBox
  readonly directory: Pick<DataDirectory, 'root' | 'files'>
  /** The public address of the server, without a path. */
  readonly publicOrigin: string
  readonly plans: Plans
  /** The bytes of the disk that uploads leave free. */
  readonly reserveBytes: number
  /** The longest pause between bytes of an upload, in milliseconds. */
  readonly idleTimeoutMs: number
  readonly stack: ShutdownStack
  readonly logger: Logger
  readonly transact: RequestTransactions
  readonly finishing: Slots<string>
  readonly totals: Pick<Totals, 'of'>
  readonly projectsOf: (on: Transaction, accountId: string) => Promise<readonly string[]>
  /** Keeps the project from being deleted until the transaction ends; false when it is no longer active. */
  readonly holdProject: (transaction: Transaction, projectId: string) => Promise<boolean>
  readonly announce: Announce
}

export interface Storage {
  readonly handlers: HandlersOf<'storage'>
  readonly downloads: Middleware
  /** The total size of a project's files in bytes. */
  readonly storedBytes: BatchedRead<string, number>
  lead(leader: Pick<LeaderParts, 'database'>): StorageWork
}

export interface StorageWork {
  /** Removes all files of a project that accepts no more uploads. May be repeated until it resolves. */
  removeProject(projectId: string): Promise<void>
}

export async function createStorage(parts: StorageParts): Promise<Storage> {
  const { database, directory, stack, logger, totals, projectsOf, announce } = parts
  const store = await openStore(parts)
  const pending = createPendingFiles({
    database,
    store,
    server: thisServer(),
    async spaceOf(transaction, accountId) {
      await assertRoom(directory.root, parts.reserveBytes)
      const { storage_gb, uploads } = await totals.of(transaction, accountId)
      return { projectIds: await projectsOf(transaction, accountId), quotaBytes: storage_gb * 1e9, uploads }
    },
    finishing: parts.finishing,
    hasEnded,
    logger,
  })
  await pending.recover()
  maintain(parts, pending)
  const background = createBackground({ logger })
  stack.defer('removal of files', () => background.settle(finishTimeoutMs))
  const files = createFiles({
    database,
    transact: parts.transact,
    store,
    pending,
    addresses: createFileAddresses({ secrets: parts.secrets, publicOrigin: parts.publicOrigin }),
    plans: parts.plans,
    background,
    logger,
    idleTimeoutMs: parts.idleTimeoutMs,
    holdProject: parts.holdProject,
    announceUpload: (transaction, { accountId, projectId, fileId, ...data }) =>
      announce(transaction, {
        accountId,
        projectId,
        event: 'file.uploaded',
        data: { file_id: fileId, project_id: projectId, ...data },
      }),
  })
  return {
    handlers: storageHandlers(files),
    downloads: downloads({ store, byAddress: files.byAddress }),
    storedBytes: files.storedBytes,
    lead: (leader) => leadStorage({ database: leader.database, store, logger }),
  }
}

/** The leader removes files, and receives none. */
function leadStorage({
  database,
  store,
  logger,
}: Pick<StorageParts, 'database' | 'logger'> & { readonly store: FileStore }): StorageWork {
  const pending = createPendingFiles({
    database,
    store,
    server: thisServer(),
    spaceOf: () => Promise.reject(new Error('the leader receives no uploads')),
    finishing: createSlots(1),
    hasEnded,
    logger,
  })
  return { removeProject: (projectId) => removeProjectFiles({ database, pending }, projectId) }
}

/** The owner in rows of pending files. Other servers use it to tell whether the owner still works on them. */
const thisServer = (): ServerStart => ({ id: randomUUID(), process: traceOfThisProcess() })

/** Opens the store for files. So far there is only the local disk; another kind of store would be chosen here. */
function openStore({ directory: { files: directory } }: Pick<StorageParts, 'directory'>): Promise<FileStore> {
  return createDiskStore({ directory })
}

function maintain(
  { stack, logger }: Pick<StorageParts, 'stack' | 'logger'>,
  pending: Pick<PendingFiles, 'maintain'>,
): void {
  const maintenance = startPeriodic({
    name: 'the maintenance of pending files',
    everyMs: maintenanceMs,
    work: pending.maintain,
    logger,
  })
  stack.defer('pending files', () => maintenance.stop())
}
