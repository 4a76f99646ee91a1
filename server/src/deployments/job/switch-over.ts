import { setTimeout as sleep } from 'node:timers/promises'
import type { App } from '../../apps/apps.ts'
import type { Upstream } from '../../gateway/gateway.ts'
import { DeploymentError } from '../state/failure.ts'
import type { DeploymentRow, ReleaseFacts } from '../state/store.ts'
import { confirmRoute } from './confirm.ts'
import type { DeployParts } from './parts.ts'
import { prune } from './prune.ts'
import { putAway } from './teardown.ts'

/** The deployment was taken out of `building` while it was worked on, or is wanted in another way. */
export class NoLongerWanted extends Error {
  override readonly name = 'NoLongerWanted'
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
  const work = async () => {
    await openAddress(parts, app)
    const before = parts.gateway.route(app.id, upstream)
    try {
      await confirmRoute(parts.listenerOf(app), app.address, deployment.id, request.facts.plan.health, signal)
      const previous = await makeRunning(parts, request, before)
      retire(parts, app, previous, before)
    } catch (error) {
      // Should it have been stopped meanwhile, it is waiting for the lock to lose the address.
      parts.gateway.route(app.id, before)
      throw error
    }
  }
  await parts.appLock(app.id, work, signal)
}

/** What ran until now finishes its requests and is put away; of the releases that are kept, the oldest go. */
function retire(parts: DeployParts, app: App, previous: DeploymentRow | undefined, upstream: Upstream | null): void {
  const work = async () => {
    if (previous !== undefined) {
      parts.work.interrupt(previous)
      await putAway(parts, previous, { upstream })
    }
    await prune(parts, app)
  }
  // A server that dies in between finds what is left at its next start.
  parts.background.add(work(), { app: app.id, what: 'retiring a release' })
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
      const changed = await parts.store.run(trx, deployment, facts)
      if (!changed.ok) return Promise.reject(new NoLongerWanted())
      await parts.announce(trx, { event: 'deployment.succeeded', row: deployment, url: parts.urlOf(app) })
      return changed.previous
    })
  } catch (error) {
    // A connection that broke off may have taken the database's "committed" with it; then the success is announced,
    // and only the database can tell.
    if (error instanceof NoLongerWanted || !(await runsAfterAll(parts, deployment))) throw error
    return before === null ? undefined : parts.store.find(before.deploymentId)
  }
}

const databaseAwayMs = 30_000

async function runsAfterAll(parts: DeployParts, deployment: DeploymentRow): Promise<boolean> {
  const deadline = performance.now() + databaseAwayMs
  for (;;) {
    try {
      return await parts.store.runs(deployment)
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
