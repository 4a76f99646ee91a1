import { killAll, type Marker, type ProcessIdentity } from '../../platform/processes.ts'
import type { StopOptions } from '../runtime.ts'
import type { Confinement } from './confinement/confinement.ts'
import { RELEASE_MARKER } from './release/environment.ts'

/** @param uid of the app's user; `undefined` when it is not known */
export const markerOf = (releaseId: string, uid: number | undefined): Marker => ({
  name: RELEASE_MARKER,
  value: releaseId,
  uid,
})

/**
 * Ends every process of a release. The control groups are emptied last: they still hold a process that has cleared
 * its environment and detached itself.
 */
export async function endRelease(
  confinement: Pick<Confinement, 'kill' | 'processesOf' | 'fence'>,
  { id, uid }: { readonly id: string; readonly uid: number | undefined },
  leaders: readonly ProcessIdentity[],
  options: StopOptions,
): Promise<void> {
  if (options.graceMs === 0) await confinement.kill(id)
  try {
    const members = () => confinement.processesOf(id)
    await killAll({ marker: markerOf(id, uid), leaders, members }, { ...options, fence: confinement.fence })
  } finally {
    if (options.signal?.aborted !== true) await confinement.kill(id)
  }
}
