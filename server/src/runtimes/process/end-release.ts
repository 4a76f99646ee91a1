import { killAll, type ProcessIdentity } from '../../platform/processes.ts'
import type { StopOptions } from '../runtime.ts'
import type { Confinement } from './confinement/confinement.ts'
import { RELEASE_MARKER } from './release/environment.ts'

export const markerOf = (releaseId: string) => ({ name: RELEASE_MARKER, value: releaseId })

/**
 * Ends every process of a release. The control groups are emptied last: they still hold a process that has cleared
 * its environment and detached itself.
 */
export async function endRelease(
  confinement: Pick<Confinement, 'kill' | 'processesOf' | 'fence'>,
  releaseId: string,
  leaders: readonly ProcessIdentity[],
  options: StopOptions,
): Promise<void> {
  if (options.graceMs === 0) await confinement.kill(releaseId)
  try {
    const members = () => confinement.processesOf(releaseId)
    await killAll({ marker: markerOf(releaseId), leaders, members }, { ...options, fence: confinement.fence })
  } finally {
    if (options.signal?.aborted !== true) await confinement.kill(releaseId)
  }
}
