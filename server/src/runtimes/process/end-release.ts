import { killAll, type ProcessIdentity } from '../../platform/processes.ts'
import type { StopOptions } from '../runtime.ts'
import type { Confinement } from './confinement/confinement.ts'
import { type LocalInstance, unitOf } from './release/local-instance.ts'
import type { ProcessMarks } from './release/marks.ts'

export interface EndParts {
  readonly confinement: Pick<Confinement, 'kill' | 'processesOf' | 'unitsOf' | 'fence'>
  readonly marks: Pick<ProcessMarks, 'markerOf' | 'instanceMarkerOf'>
}

/** Ends every process of a release. */
export async function endRelease(
  { confinement, marks }: EndParts,
  { id, uid }: { readonly id: string; readonly uid: number | undefined },
  leaders: readonly ProcessIdentity[],
  options: StopOptions,
): Promise<void> {
  const units = await confinement.unitsOf(id)
  await end(confinement, units, { marker: marks.markerOf(id, uid), leaders }, options)
}

/** Ends every process of one instance. */
export async function endInstance(
  { confinement, marks }: EndParts,
  instance: LocalInstance,
  options: StopOptions,
): Promise<void> {
  const { unit, releaseId, uid } = instance
  // A server from before several instances has marked its processes with their release alone.
  const marker = unit === undefined ? marks.markerOf(releaseId, uid) : marks.instanceMarkerOf(unit, uid)
  await end(confinement, [unitOf(instance)], { marker, leaders: [instance] }, options)
}

/**
 * Ends the marked processes and those of control groups, which are emptied last: they still hold a process that has cleared
 * its environment and detached itself.
 */
async function end(
  confinement: EndParts['confinement'],
  units: readonly string[],
  target: { readonly marker: ReturnType<ProcessMarks['markerOf']>; readonly leaders: readonly ProcessIdentity[] },
  options: StopOptions,
): Promise<void> {
  const kill = async () => {
    for (const unit of units) await confinement.kill(unit)
  }
  if (options.graceMs === 0) await kill()
  try {
    const members = async () => (await Promise.all(units.map((unit) => confinement.processesOf(unit)))).flat()
    await killAll({ ...target, members }, { ...options, fence: confinement.fence })
  } finally {
    if (options.signal?.aborted !== true) await kill()
  }
}
