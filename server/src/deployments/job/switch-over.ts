import type { BuildPlan } from '../../builds/build-plan.ts'
import { type Gateway, isUnanswered, type Upstream } from '../../gateway/client.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import type { KeyedLock } from '../../platform/keyed-lock.ts'
import { onceDatabaseIsBack } from '../../platform/leadership/leadership.ts'
import type { App } from '../app-directory.ts'
import { DeploymentError } from '../failure.ts'
import type { Announce, UrlOf } from '../outcome.ts'
import type { DeploymentStore, ReleaseFacts } from '../rows.ts'
import type { DeploymentRow } from '../tables.ts'
import { confirmRoute } from './confirm.ts'

/** The deployment left `building` while its job ran, or a later request was accepted. */
export class NoLongerDesired extends Error {
  override readonly name = 'NoLongerDesired'
}

export interface SwitchRequest {
  readonly app: App
  readonly deployment: DeploymentRow
  readonly upstream: Upstream
  readonly facts: ReleaseFacts
}

/**
 * Gives the app's address to a healthy release: routes to it, confirms that visitors get it, then makes it `running` and
 * announces that in one transaction. If any of this fails, the old release has the address again.
 */
export type SwitchStep = (request: SwitchRequest, signal: AbortSignal) => Promise<void>

export interface SwitchDependencies {
  readonly gateway: Pick<Gateway, 'open' | 'route'>
  readonly lock: KeyedLock
  /** The address at which the gateway answers for an app on this machine. */
  readonly listenerOf: (app: App) => { readonly host: string; readonly port: number }
  readonly database: Database
  readonly store: Pick<DeploymentStore, 'jobs' | 'rows'>
  readonly announce: Announce
  readonly urlOf: UrlOf
  /**
   * Called in the transaction in which a release begins to serve its app, with its row as it was when it was started.
   */
  readonly onServing: (transaction: Transaction, row: DeploymentRow, plan: Pick<BuildPlan, 'cron'>) => Promise<void>
  /** Called with the release that ran until now, if there was one, and the upstream that it answered on. */
  readonly retire: (app: App, previous: DeploymentRow | undefined, upstream: Upstream | null) => void
}

export function createSwitchStep(dependencies: SwitchDependencies): SwitchStep {
  const { gateway, lock, listenerOf, retire } = dependencies
  return async (request, signal) => {
    const { app, deployment, upstream, facts } = request
    const switchRoute = async () => {
      await openAddress(gateway, app)
      const before = await gateway.route(app.id, upstream).catch(throwUnanswered)
      try {
        await confirmRoute(listenerOf(app), app.address, deployment.id, facts.plan.health, signal)
        const previous = await makeRunning(dependencies, request, { before, signal })
        retire(app, previous, before)
      } catch (error) {
        // Should the old release have been stopped meanwhile, its teardown waits for the lock to take the address.
        await gateway.route(app.id, before)
        throw error
      }
    }
    await lock(app.id, switchRoute, signal)
  }
}

/** Returns the release that ran until now. */
async function makeRunning(
  { database, store, announce, urlOf, onServing }: SwitchDependencies,
  { app, deployment, facts }: SwitchRequest,
  { before, signal }: { readonly before: Upstream | null; readonly signal: AbortSignal },
): Promise<DeploymentRow | undefined> {
  try {
    return await database.transaction().execute(async (trx) => {
      const changed = await store.jobs.run(trx, deployment, facts)
      if (!changed.ok) throw new NoLongerDesired()
      await announce(trx, { event: 'deployment.succeeded', row: deployment, url: urlOf(app) })
      await onServing(trx, deployment, facts.plan)
      return changed.previous
    })
  } catch (error) {
    if (error instanceof NoLongerDesired) throw error
    // The connection may have broken after the commit and before its confirmation. Then the success is announced already,
    // and only the database can tell, however long it is away.
    if (!(await onceDatabaseIsBack(() => store.jobs.runs(deployment), signal))) throw error
    return before === null ? undefined : store.rows.find(before.deploymentId)
  }
}

/** Usually open since the app was made; not when another program held the address at the server's start. */
async function openAddress(gateway: Pick<Gateway, 'open'>, app: App): Promise<void> {
  try {
    await gateway.open(app.id, app.address)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EADDRINUSE') return throwUnanswered(error)
    const held = 'port' in app.address ? `Port ${app.address.port}` : app.address.hostname
    throw new DeploymentError(
      'switch',
      'address_taken',
      `${held}, the address of this app, is held by another program. Stop that program.`,
    )
  }
}

/** Throws an error of the gateway as the reason of the deployment's failure, if it does not answer; else as it is. */
function throwUnanswered(error: unknown): never {
  if (!isUnanswered(error)) throw error
  throw new DeploymentError(
    'switch',
    'gateway_not_answering',
    'The gateway of this server does not answer, so that the release could not get the address of the app. Deploy again, and ' +
      'tell the operator if it fails again.',
  )
}
