import type { Upstream } from '../../gateway/gateway.ts'
import type { DeploymentRow } from '../state/store.ts'
import type { DeployParts } from './parts.ts'

/** How long a process may take to end after SIGTERM. */
export const stopGraceMs = 10_000

/**
 * Takes the app's address from a release, if it has it, and lets the release finish its requests. `replaced` is what
 * it answered on when another release has the address already. Ends early, without an error, when `signal` aborts.
 */
export async function drain(
  parts: DeployParts,
  row: DeploymentRow,
  signal: AbortSignal,
  replaced: Upstream | null = null,
): Promise<void> {
  const upstream = (await unroute(parts, row)) ?? replaced
  if (upstream === null || signal.aborted) return
  await parts.gateway.drain(upstream, { timeoutMs: parts.settings.drainMs, signal })
}

/** Takes the app's address from a release, if it has it; gives what had it until now then. */
export function unroute(parts: DeployParts, row: DeploymentRow): Promise<Upstream | null> {
  return parts.appLock(row.app_id, async () => {
    const current = parts.gateway.current(row.app_id)
    if (current?.deploymentId !== row.id) return null
    parts.gateway.route(row.app_id, null)
    return current
  })
}
