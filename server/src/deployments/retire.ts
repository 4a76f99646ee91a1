import type { Upstream } from '../gateway/gateway.ts'
import type { App } from './apps.ts'
import type { DeployParts } from './parts.ts'
import type { DeploymentRow } from './store.ts'

/** How long a process may take to end after SIGTERM. */
export const stopGraceMs = 10_000

/** Lets an old release finish its requests, then stops and removes it. Runs in the background. */
export function retire(
  parts: DeployParts,
  old: { readonly app: App; readonly deployment: DeploymentRow; readonly upstream: Upstream | null },
): void {
  const { app, deployment, upstream } = old
  const work = async () => {
    if (upstream !== null) await parts.gateway.drain(upstream, { timeoutMs: parts.settings.drainMs })
    if (deployment.instance !== null) await parts.runner.stop(deployment.instance, { graceMs: stopGraceMs })
    await parts.runner.remove(parts.releases.of(deployment, app.number))
  }
  // A server that dies in between finds the folder of a superseded release at its next start.
  parts.background.add(work(), { deployment: deployment.id, what: 'retiring a release' })
}
