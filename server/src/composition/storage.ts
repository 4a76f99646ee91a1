import { randomUUID } from 'node:crypto'
import type { Api } from '../http/application.ts'
import type { HandlersOf } from '../http/call.ts'
import type { Totals } from '../platform/account-limits.ts'
import { createBackground } from '../platform/background.ts'
import { assertRoom } from '../platform/disk/free-space.ts'
import { startPeriodic } from '../platform/periodic.ts'
import { hasEnded, traceOfThisProcess } from '../platform/processes.ts'
import { finishTimeoutMs } from '../platform/shutdown.ts'
import { createSlots } from '../platform/slots.ts'
import type { Tenancy } from '../projects/tenancy.ts'
import { createFileAddresses } from '../storage/addresses.ts'
import { createDiskStore } from '../storage/disk-store.ts'
import { downloads } from '../storage/download.ts'
import { createFiles, type Files, removeProjectFiles } from '../storage/files.ts'
import { storageHandlers } from '../storage/handlers.ts'
import { settleOldMarkers } from '../storage/old-markers.ts'
import { createPendingFiles, maintenanceMs, type PendingFilesDependencies } from '../storage/pending.ts'
import type { FileStore } from '../storage/store.ts'
import type { StorageParts } from '../storage/upload.ts'
import { announce } from '../webhooks/outbox.ts'
import type { Composition, RequestTurns } from './composition.ts'

/** The parts of the storage feature that other composers use. */
export interface StorageFeature {
  readonly handlers: HandlersOf<'storage'>
  readonly downloads: Api['downloads']
  readonly storedBytes: Files['storedBytes']
}

export async function composeStorage(
  composition: Composition,
  { hold, projectsOf }: Pick<Tenancy, 'hold' | 'projectsOf'>,
  { totals, transact, finishing }: RequestTurns & { readonly totals: Pick<Totals, 'of'> },
): Promise<StorageFeature> {
  const { config, state } = composition
  const parts = await storageParts(composition, {
    transact,
    finishing,
    async spaceOf(transaction, accountId) {
      await assertRoom(state.directory.root, config.deploys.reserveBytes)
      const { storage_gb, uploads } = await totals.of(transaction, accountId)
      return { projectIds: await projectsOf(transaction, accountId), quotaBytes: storage_gb * 1e9, uploads }
    },
    holdProject: hold,
    announceUpload: (trx, { accountId, projectId, fileId, ...data }) =>
      announce(trx, {
        accountId,
        projectId,
        event: 'file.uploaded',
        data: { file_id: fileId, project_id: projectId, ...data },
      }),
  })
  const files = createFiles(parts)
  return {
    handlers: storageHandlers(files),
    downloads: downloads({ store: parts.store, byAddress: files.byAddress }),
    storedBytes: files.storedBytes,
  }
}

/** Returns the leader's function that removes the files of a project. */
export async function leadStorage({ logger, state }: Composition): Promise<(projectId: string) => Promise<void>> {
  const { db: database, directory } = state
  const store = await createDiskStore({ directory: directory.files })
  // The leader removes files, and receives none.
  const spaceOf = () => Promise.reject(new Error('the leader receives no uploads'))
  const pending = createPendingFiles({
    ...{ database, store, spaceOf, hasEnded, logger },
    server: owner(),
    finishing: createSlots(1),
  })
  return (projectId) => removeProjectFiles({ database, pending }, projectId)
}

/** The owner in rows of pending files. Other servers use it to tell whether the owner still works on them. */
const owner = () => ({ id: randomUUID(), process: traceOfThisProcess() })

/** Opens the store and removes leftovers of interrupted uploads and deletions. */
async function storageParts(
  composition: Composition,
  {
    spaceOf,
    finishing,
    ...given
  }: Pick<StorageParts, 'transact' | 'holdProject' | 'announceUpload'> &
    Pick<PendingFilesDependencies, 'spaceOf' | 'finishing'>,
): Promise<StorageParts> {
  const { config, logger, state, secrets, stack, publicOrigin } = composition
  const store = await openStore(composition)
  const pending = createPendingFiles({
    database: state.db,
    store,
    server: owner(),
    spaceOf,
    finishing,
    hasEnded,
    logger,
  })
  await pending.recover()
  const maintenance = startPeriodic({
    name: 'the maintenance of pending files',
    everyMs: maintenanceMs,
    work: pending.maintain,
    logger,
  })
  stack.defer('pending files', () => maintenance.stop())
  const background = createBackground({ logger })
  stack.defer('removal of files', () => background.settle(finishTimeoutMs))
  return {
    ...given,
    database: state.db,
    store,
    pending,
    addresses: createFileAddresses({ secrets, publicOrigin }),
    plans: config.plans,
    background,
    logger,
    idleTimeoutMs: config.uploadIdleTimeoutMs,
  }
}

/** Opens the store for files. So far there is only the local disk; a choice by the configuration belongs here. */
async function openStore({ state, logger }: Composition): Promise<FileStore> {
  const { files: directory } = state.directory
  const store = await createDiskStore({ directory })
  await settleOldMarkers({ database: state.db, store, directory, logger })
  return store
}
