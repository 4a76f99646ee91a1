import { setTimeout as sleep } from 'node:timers/promises'
import type { BuildPlan } from '../../builds/build-plan.ts'
import {
  deploymentHeader,
  type Gateway,
  isUnanswered,
  type PublicAddress,
  type Upstream,
} from '../../gateway/client.ts'
import type { LogStore } from '../../logs/log-store.ts'
import type { Background } from '../../platform/background.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import type { KeyedLock } from '../../platform/keyed-lock.ts'
import { onceDatabaseIsBack } from '../../platform/leadership/leadership.ts'
import type { App } from './app-directory.ts'
import { DeploymentError } from './failure.ts'
import { isHealthy, probe } from './health.ts'
import type { DeploymentLocks } from './lock.ts'
import type { AnnounceOutcome, UrlOf } from './outcome.ts'
import type { DeploymentStore, ReleaseFacts } from './rows.ts'
import type { DeploymentRow } from './tables.ts'
import type { Teardown } from './teardown.ts'

/** The deployment left `building` while its job ran, or a later request was accepted. */
export class NoLongerDesired extends Error {
  override readonly name = 'NoLongerDesired'
}

interface SwitchRequest {
  readonly app: App
  readonly deployment: DeploymentRow
  readonly upstream: Upstream
  readonly facts: ReleaseFacts
}

/**
 * Gives the app's address to a healthy release: routes to it, confirms that visitors reach it, then makes it `running`
 * and announces that in one transaction. If any of this fails, the old release gets the address again.
 */
export type SwitchStep = (request: SwitchRequest, signal: AbortSignal) => Promise<void>

/** Called in the transaction in which a release begins to serve its app, with its row as it was when it was started. */
export type OnServing = (transaction: Transaction, row: DeploymentRow, plan: Pick<BuildPlan, 'cron'>) => Promise<void>

interface SwitchDependencies {
  readonly gateway: Pick<Gateway, 'open' | 'route'>
  readonly lock: KeyedLock
  readonly listenerOf: (app: App) => { readonly host: string; readonly port: number }
  readonly database: Database
  readonly store: Pick<DeploymentStore, 'jobs' | 'rows'>
  readonly announce: AnnounceOutcome
  readonly urlOf: UrlOf
  readonly onServing: OnServing
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
        // If the old release was stopped since, its teardown waits for the lock to take the address.
        await gateway.route(app.id, before)
        throw error
      }
    }
    await lock(app.id, switchRoute, signal)
  }
}

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
    // The connection may have broken after the commit and before its confirmation. Then the success is already
    // announced, and only the database knows.
    if (!(await onceDatabaseIsBack(() => store.jobs.runs(deployment), signal))) throw error
    return before === null ? undefined : store.rows.find(before.deploymentId)
  }
}

/** Usually open since the app was made, unless another program held the address at the server's start. */
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

/**
 * Converts an error of the gateway into the failure of the deployment if the gateway does not answer. Throws other
 * errors unchanged.
 */
function throwUnanswered(error: unknown): never {
  if (!isUnanswered(error)) throw error
  throw new DeploymentError(
    'switch',
    'gateway_not_answering',
    'The gateway of this server does not answer, so that the release could not get the address of the app. Deploy again, and ' +
      'tell the operator if it fails again.',
  )
}

const confirmAttempts = 5

/**
 * Requests the app from the gateway as a visitor would, and resolves when the new release answers. Rejects with a
 * `DeploymentError` of the stage `switch` otherwise.
 */
async function confirmRoute(
  listener: { readonly host: string; readonly port: number },
  address: PublicAddress,
  deploymentId: string,
  healthPath: string | undefined,
  signal: AbortSignal,
): Promise<void> {
  let seen = 'no answer'
  for (let attempt = 1; attempt <= confirmAttempts; attempt++) {
    try {
      const target = { ...listener, path: healthPath ?? '/', headers: hostHeader(address) }
      const { status, headers } = await probe(target, signal)
      const from = headers[deploymentHeader]
      if (from === deploymentId && isHealthy(status, healthPath)) return
      seen = `status ${status} from ${from ?? 'the gateway itself'}`
    } catch (error) {
      signal.throwIfAborted()
      seen = error instanceof Error ? error.message : String(error)
    }
    await sleep(100, undefined, { signal })
  }
  throw new DeploymentError(
    'switch',
    'address_not_answering',
    `The app is healthy, but its public address did not lead to it (${seen}). See that no other program holds the address.`,
  )
}

function hostHeader(address: PublicAddress): Record<string, string> {
  return 'hostname' in address ? { host: address.hostname } : {}
}

/**
 * Lets the replaced release finish its requests and tears it down, in the background; then removes the oldest releases.
 * A server that dies in between continues at its next start.
 */
export function createRetire(dependencies: {
  readonly locks: Pick<DeploymentLocks, 'interrupt'>
  readonly teardown: Teardown
  readonly prune: Prune
  readonly background: Background
}): SwitchDependencies['retire'] {
  const { locks, teardown, prune, background } = dependencies
  return (app, previous, replaced) => {
    const retire = async () => {
      if (previous !== undefined) {
        locks.interrupt(previous)
        await teardown(previous, { replaced })
      }
      await prune(app.id)
    }
    background.add(retire(), { app: app.id, what: 'retiring a release' })
  }
}

const releasesKept = 5
const logsKept = 50

type Prune = (appId: string) => Promise<void>

export function createPrune({
  store,
  logs,
  teardown,
}: {
  readonly store: Pick<DeploymentStore, 'rows' | 'jobs'>
  readonly logs: Pick<LogStore, 'list' | 'remove'>
  readonly teardown: Teardown
}): Prune {
  return async (appId) => {
    for (const row of await store.jobs.prune(appId, releasesKept)) await teardown(row)
    const kept = new Set(await store.rows.newest(appId, logsKept))
    const found = (await logs.list()).find((app) => app.appId === appId)
    for (const deploymentId of found?.deploymentIds ?? []) {
      if (kept.has(deploymentId)) continue
      // The release of an old deployment may serve again after a rollback, and still writes its log.
      const row = await store.rows.find(deploymentId)
      if (row?.retained !== true && row?.status !== 'building' && row?.status !== 'running') {
        await logs.remove({ appId, deploymentId })
      }
    }
  }
}
