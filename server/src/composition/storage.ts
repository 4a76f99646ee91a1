import { join } from 'node:path'
import { createBackground } from '../platform/background.ts'
import { startPeriodic } from '../platform/periodic.ts'
import { createFileAddresses } from '../storage/address.ts'
import { createDiskStore } from '../storage/disk-store.ts'
import { settleOldMarkers } from '../storage/old-markers.ts'
import type { StorageParts } from '../storage/parts.ts'
import { createPendingFiles, maintenanceMs } from '../storage/pending.ts'
import { openServerId } from '../storage/server-id.ts'
import type { FileStore } from '../storage/store.ts'
import { type Composition, finishTimeoutMs } from './composition.ts'

/** Opens the store and removes what interrupted uploads and deletions left in it. */
export async function storageParts(
  composition: Composition,
  given: Pick<StorageParts, 'holdProject' | 'announceUpload'>,
): Promise<StorageParts> {
  const { config, logger, state, secrets, stack, publicOrigin } = composition
  const store = await openStore(composition)
  const serverId = await openServerId(join(state.directory.root, 'server-id'))
  const pending = createPendingFiles({ database: state.db, store, serverId, logger })
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

/** Opens the store for files. The local disk is the only kind so far; another kind is chosen here by the configuration. */
async function openStore({ state, logger }: Composition): Promise<FileStore> {
  const { files: directory } = state.directory
  const store = await createDiskStore({ directory })
  await settleOldMarkers({ database: state.db, store, directory, logger })
  return store
}
