import { setTimeout as sleep } from 'node:timers/promises'
import type { Upstream } from '../../gateway/gateway.ts'
import type { App } from '../apps.ts'
import { DeploymentError } from '../failure.ts'
import type { DeployParts } from '../parts.ts'
import { retire } from '../retire.ts'
import type { DeploymentRow, ReleaseFacts } from '../store.ts'
import { confirmRoute } from './confirm.ts'

/** The deployment was taken out of `building` while it was worked on. */
export class NoLongerBuilding extends Error {
  override readonly name = 'NoLongerBuilding'
}

export interface SwitchRequest {
  readonly app: App
  readonly deployment: DeploymentRow
  readonly upstream: Upstream
  readonly facts: ReleaseFacts
}

/**
 * Gives the app's address to a healthy release: routes to it, confirms that it is what visitors get, then makes it
 * `running` and announces that in one transaction. If any of this fails, the old release has the address again.
 */
export async function switchOver(parts: DeployParts, request: SwitchRequest, signal: AbortSignal): Promise<void> {
  const { app, deployment, upstream } = request
  await parts.appLock(app.id, async () => {
    await openAddress(parts, app)
    const before = parts.gateway.route(app.id, upstream)
    try {
      await confirmRoute(parts.listenerOf(app), app.address, deployment.id, signal)
      const previous = await makeRunning(parts, request, before)
      if (previous !== undefined) retire(parts, { app, deployment: previous, upstream: before })
    } catch (error) {
      parts.gateway.route(app.id, before)
      throw error
    }
  })
}

/** Gives the release that ran until now. */
async function makeRunning(
  parts: DeployParts,
  request: SwitchRequest,
  before: Upstream | null,
): Promise<DeploymentRow | undefined> {
  const { app, deployment, facts } = request
  try {
    return await parts.database.transaction().execute(async (trx) => {
      const changed = await parts.store.run(trx, deployment.id, facts)
      if (!changed.ok) throw new NoLongerBuilding()
      await parts.announceSuccess(trx, {
        projectId: deployment.project_id,
        deploymentId: deployment.id,
        url: parts.urlOf(app),
      })
      return changed.previous
    })
  } catch (error) {
    // A connection that broke off may have taken the database's "committed" with it; then the success is announced,
    // and only the database can tell.
    if (error instanceof NoLongerBuilding || !(await runsAfterAll(parts, deployment.id))) throw error
    return before === null ? undefined : parts.store.get(deployment.project_id, before.deploymentId)
  }
}

const databaseAwayMs = 30_000

async function runsAfterAll(parts: DeployParts, deploymentId: string): Promise<boolean> {
  const deadline = performance.now() + databaseAwayMs
  for (;;) {
    try {
      return (await parts.store.stillRunning(deploymentId)) !== undefined
    } catch (error) {
      if (performance.now() > deadline) throw error
      await sleep(250)
    }
  }
}

/** Usually open since the app was made; not when another program held the address at the server's start. */
async function openAddress(parts: DeployParts, app: App): Promise<void> {
  try {
    await parts.gateway.open(app.id, app.address)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') throw error
    const held = 'port' in app.address ? `Port ${app.address.port}` : app.address.hostname
    throw new DeploymentError(
      'switch',
      'address_taken',
      `${held}, the address of this app, is held by another program. Stop that program.`,
    )
  }
}
