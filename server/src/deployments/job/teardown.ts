import type { Upstream } from '../../gateway/gateway.ts'
import type { DeploymentRow } from '../state/store.ts'
import { drain, stopGraceMs } from './drain.ts'
import type { DeployParts } from './parts.ts'

/**
 * Leaves of a release what its deployment's state allows: all to one that is building or running; to one at rest its
 * files, if they are kept, and no process; to one that is gone nothing at all. Requests under way may finish.
 * Safe to call for any release at any time, and again.
 *
 * @param options.upstream what it answered on, when another release has its address already
 */
export async function putAway(
  parts: DeployParts,
  deployment: Pick<DeploymentRow, 'id' | 'app_id'>,
  options: { readonly upstream?: Upstream | null } = {},
): Promise<void> {
  const release = parts.releases.placeOf(deployment)
  let lookAgain = true
  while (lookAgain) {
    lookAgain = await parts.work.run(release.id, async ({ signal }) => {
      const row = await parts.store.find(release.id)
      if (row?.status === 'building' || row?.status === 'running') return false
      if (row !== undefined) await endInstance(parts, row, signal, options.upstream ?? null)
      // Whoever interrupts wants the release in another way; then it may even be wanted as it is.
      if (signal.aborted) return true
      if (row?.retained === true) await parts.runner.halt(release)
      else await parts.runner.remove(release)
      return false
    })
  }
}

async function endInstance(
  parts: DeployParts,
  row: DeploymentRow,
  signal: AbortSignal,
  upstream: Upstream | null,
): Promise<void> {
  await drain(parts, row, signal, upstream)
  // Noted before it is told to end: from then on nobody takes this process for one that can be routed to.
  if (row.instance === null || signal.aborted || !(await parts.store.forgetInstance(row))) return
  await parts.runner.stop(row.instance, { graceMs: stopGraceMs, signal })
}
