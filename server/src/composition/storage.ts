import { createBackground } from '../platform/background.ts'
import { createDiskStore } from '../storage/disk.ts'
import type { StorageParts } from '../storage/parts.ts'
import { reconcileFiles } from '../storage/settle.ts'

import { type Composition, finishTimeoutMs } from './composition.ts'
export async function storageParts(
  { config, logger, state, secrets, stack, publicOrigin }: Composition,
  given: Pick<StorageParts, 'holdProject' | 'announceUpload'>,
): Promise<StorageParts> {
  const background = createBackground({ logger })
  stack.defer('removal of files', () => background.settle(finishTimeoutMs))
  const parts = {
    ...given,
    database: state.db,
    store: await createDiskStore({ directory: state.directory.files }),
    secrets,
    plans: config.plans,
    background,
    logger,
    publicOrigin,
    idleTimeoutMs: config.uploadIdleTimeoutMs,
  }
  await reconcileFiles(parts)
  return parts
}
