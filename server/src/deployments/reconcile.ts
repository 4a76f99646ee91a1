import { setTimeout as sleep } from 'node:timers/promises'
import type { App } from './apps.ts'
import { DeploymentError, failureOf } from './failure.ts'
import type { DeployParts } from './parts.ts'
import { stopGraceMs } from './retire.ts'
import { untilHealthy } from './steps/health.ts'
import type { DeploymentRow } from './store.ts'

/** Looks after the releases that should run: at the server's start, and for as long as it lives. */
export interface Keeper {
  /** Answers for every app's address (503 until its release is confirmed) and clears away what no deployment owns. */
  begin(): Promise<void>
  /** Looks at every running release until `signal` aborts; what has died is started again. */
  watch(signal: AbortSignal): Promise<void>
  /** Stops every app; the next start of the server brings them back. */
  stopAll(): Promise<void>
}

const watchIntervalMs = 1_000
const openAgainMs = 5_000
/** So many restarts, each within a minute of the one before, are a crash loop. */
const restartsAllowed = 5
const calmMs = 60_000

interface Restarts {
  count: number
  lastAt: number
}

export function createKeeper(parts: DeployParts): Keeper {
  const restarts = new Map<string, Restarts>()
  const closedApps = new Map<string, App>()
  /** Deployments that are being looked after at this moment. */
  const busy = new Map<string, Promise<void>>()

  const open = async (app: App): Promise<void> => {
    try {
      await parts.gateway.open(app.id, app.address)
      closedApps.delete(app.id)
    } catch (error) {
      if (!closedApps.has(app.id)) {
        parts.logger.error({ err: error, app: app.id, address: app.address }, "an app's address cannot be listened on")
      }
      closedApps.set(app.id, app)
    }
  }

  /** Sees that a running release is alive and has the app's address; starts it again when it is not. */
  const keep = async (seen: DeploymentRow, signal: AbortSignal): Promise<void> => {
    // Nothing can be routed to an address that another program holds; it is tried again by itself.
    if (closedApps.has(seen.app_id) || (await answers(seen))) return
    await parts.appLock(seen.app_id, async () => {
      // Read again under the lock: a newer release may have taken over meanwhile.
      const row = await parts.store.stillRunning(seen.id)
      if (row === undefined || signal.aborted || (await adopt(row))) return
      const again = restarts.get(row.id)
      if (again !== undefined && performance.now() - again.lastAt < calmMs && again.count >= restartsAllowed) {
        await giveUp(
          row,
          new DeploymentError('run', 'crash_loop', 'The app ended again and again after it was started.'),
        )
        return
      }
      noteRestart(row.id)
      await revive(row, signal)
    })
  }

  /** Whether the release has the app's address and its process lives; whether it listens is its own matter then. */
  const answers = async (row: DeploymentRow): Promise<boolean> => {
    if (row.instance === null || parts.gateway.current(row.app_id)?.deploymentId !== row.id) return false
    return (await parts.runner.inspect(row.instance)).state !== 'exited'
  }

  /** Routes to the process that the database names, if it is that process and it holds its port. */
  const adopt = async (row: DeploymentRow): Promise<boolean> => {
    if (row.instance === null) return false
    if (await answers(row)) return true
    const seen = await parts.runner.inspect(row.instance)
    if (seen.state !== 'listening') return false
    parts.gateway.route(row.app_id, { deploymentId: row.id, host: seen.host, port: row.instance.port })
    return true
  }

  const revive = async (row: DeploymentRow, signal: AbortSignal): Promise<void> => {
    parts.gateway.route(row.app_id, null)
    parts.logger.info({ deployment: row.id }, 'starting the release again')
    try {
      if (row.plan === null) throw new Error('a running deployment has no plan')
      if (row.instance !== null) await parts.runner.stop(row.instance, { graceMs: stopGraceMs })
      const app = await parts.apps.get(row.app_id)
      const release = parts.releases.of(row, app.number)
      signal.throwIfAborted()
      const instance = await parts.runner.start(release, row.plan)
      await parts.store.setInstance(row.id, instance)
      // From here on `stopAll` knows the process, should the server stop now.
      const { host } = await untilHealthy(parts.runner, release, instance, parts.settings, signal)
      parts.gateway.route(row.app_id, { deploymentId: row.id, host, port: instance.port })
    } catch (error) {
      if (!signal.aborted) await giveUp(row, error)
    }
  }

  const giveUp = async (row: DeploymentRow, error: unknown): Promise<void> => {
    parts.logger.error({ err: error, deployment: row.id }, 'the release cannot be kept running')
    const failure = failureOf(error, parts.releases.variablesOf(row))
    parts.gateway.route(row.app_id, null)
    await parts.store.fail(row.id, {
      ...failure,
      stage: 'run',
      message: `The app could not be kept running. ${failure.message}`,
    })
    await parts.runner.remove(parts.releases.of(row, (await parts.apps.get(row.app_id)).number))
    restarts.delete(row.id)
  }

  const noteRestart = (id: string): void => {
    const before = restarts.get(id)
    const calm = before === undefined || performance.now() - before.lastAt > calmMs
    restarts.set(id, { count: calm ? 1 : before.count + 1, lastAt: performance.now() })
  }

  return {
    async begin() {
      for (const app of await parts.apps.list()) await open(app)
      const live = await parts.store.live()
      for (const release of await parts.releases.onDisk()) {
        if (live.has(release.id)) continue
        await parts.runner.remove(release).catch((error: unknown) => {
          parts.logger.error({ err: error, deployment: release.id }, 'an old release could not be removed')
        })
      }
    },

    async watch(signal) {
      let openAt = performance.now() + openAgainMs
      while (!signal.aborted) {
        if (closedApps.size > 0 && performance.now() > openAt) {
          for (const app of closedApps.values()) await open(app)
          openAt = performance.now() + openAgainMs
        }
        try {
          for (const row of await parts.store.running()) {
            if (busy.has(row.id)) continue
            // Not awaited: an app that takes its time to start must not keep the others from being looked after.
            const looking = keep(row, signal)
              .catch((error: unknown) => {
                parts.logger.error({ err: error, deployment: row.id }, 'a release could not be looked after')
              })
              .finally(() => busy.delete(row.id))
            busy.set(row.id, looking)
          }
        } catch (error) {
          parts.logger.warn({ err: error }, 'the running apps could not be looked at')
        }
        await sleep(watchIntervalMs, undefined, { signal }).catch(() => undefined)
      }
      await Promise.all(busy.values())
    },

    async stopAll() {
      const rows = await parts.store.running()
      await Promise.all(
        rows.map(async (row) => {
          parts.gateway.route(row.app_id, null)
          if (row.instance !== null) await parts.runner.stop(row.instance, { graceMs: stopGraceMs })
        }),
      )
    },
  }
}
