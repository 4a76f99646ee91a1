import { sleepUntilAborted } from '../../platform/abort.ts'
import { limitCodes } from '../../runtimes/process/limits.ts'
import type { Release } from '../../runtimes/runtime.ts'
import { stopGraceMs, unroute } from '../job/drain.ts'
import { failDeployment } from '../job/fail.ts'
import { untilHealthy } from '../job/health.ts'
import type { DeployParts } from '../job/parts.ts'
import { DeploymentError, failureOf, saidOf, withLastLines } from '../state/failure.ts'
import type { DeploymentRow } from '../state/store.ts'
import { createRestarts } from './restarts.ts'
import { sweep } from './sweep.ts'

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
const sweepIntervalMs = 60_000
const linesInFailure = 20
const crashLoop = 'crash_loop'

export function createKeeper(parts: DeployParts): Keeper {
  const restarts = createRestarts()
  const releaseOf = async (row: DeploymentRow): Promise<Release> =>
    parts.releases.of(row, (await parts.apps.get(row.app_id)).number)

  /** Sees that a running release is alive and has the app's address; starts it again when it is not. */
  const keep = async (seen: DeploymentRow, stopping: AbortSignal): Promise<void> => {
    // Nothing can be routed to an address that another program holds; it is tried again by itself.
    if (!parts.listening.isOpen(seen.app_id) || parts.work.isBusy(seen.id) || answers(seen)) return
    await parts.work.run(
      seen.id,
      async ({ signal }) => {
        // Read again: it may be wanted in another way meanwhile.
        const row = await parts.store.find(seen.id)
        if (row?.status !== 'running' || signal.aborted || (await adopt(row))) return
        await unroute(parts, row)
        // Another release may have taken over meanwhile: then this one finishes its requests, and nobody may end it.
        if (!(await parts.store.runs(row))) return
        if (restarts.isLoop(row.id, performance.now())) await giveUp(row, await crashed(row))
        else if (restarts.isDue(row.id, performance.now())) await revive(row, signal)
      },
      stopping,
    )
  }

  /** Whether the release has the app's address and its process lives; whether it listens is its own matter then. */
  const answers = ({ id, app_id, instance }: DeploymentRow): boolean =>
    instance !== null && parts.gateway.current(app_id)?.deploymentId === id && parts.runner.lives(instance)

  /** Routes to the process that the database names, if it is that process and it holds its port. */
  const adopt = async (row: DeploymentRow): Promise<boolean> => {
    if (row.instance === null) return false
    if (answers(row)) return true
    const seen = await parts.runner.inspect(row.instance)
    if (seen.state !== 'listening') return false
    await parts.runner.adopt(await releaseOf(row), row.instance)
    return routeTo(row, seen.host, row.instance.port)
  }

  /** Gives it the address, unless it is wanted in another way by now. */
  const routeTo = (row: DeploymentRow, host: string, port: number): Promise<boolean> =>
    parts.appLock(row.app_id, async () => {
      const runs = await parts.store.runs(row)
      if (runs) parts.gateway.route(row.app_id, { deploymentId: row.id, host, port })
      return runs
    })

  const revive = async (row: DeploymentRow, signal: AbortSignal): Promise<void> => {
    parts.logger.info({ deployment: row.id }, 'starting the release again')
    restarts.note(row.id, performance.now())
    const release = await releaseOf(row)
    try {
      if (row.plan === null) throw new Error('a running deployment has no plan')
      if (row.instance !== null) await parts.runner.stop(row.instance, { graceMs: stopGraceMs })
      signal.throwIfAborted()
      const instance = await parts.runner.start(release, row.plan)
      // From here on `stopAll` knows the process, should the server stop now.
      const runs = await parts.store.setInstance(row, instance)
      if (!runs) return await parts.runner.halt(release)
      const health = { ...parts.settings, path: row.plan.health }
      const { host } = await untilHealthy(parts.runner, release, instance, health, signal)
      await routeTo({ ...row, instance }, host, instance.port)
    } catch (error) {
      if (signal.aborted) return
      parts.logger.warn({ err: error, deployment: row.id }, 'the release could not be started again')
      await parts.runner.halt(release)
      restarts.noteFailure(row.id, performance.now())
      if (restarts.isLoop(row.id, performance.now())) await giveUp(row, error)
    }
  }

  const crashed = async (row: DeploymentRow): Promise<DeploymentError> => {
    const release = await releaseOf(row)
    const lines = await parts.runner.logs(release, 'runtime', { lines: linesInFailure })
    const seen = row.instance === null ? null : await parts.runner.inspect(row.instance)
    const exceeded = seen?.state === 'exited' ? seen.exceeded : null
    const said = exceeded === null ? 'Put right what its output says.' : saidOf(exceeded, 'app', release.limits)
    return new DeploymentError('run', exceeded ?? crashLoop, withLastLines(said, lines))
  }

  const giveUp = async (row: DeploymentRow, error: unknown): Promise<void> => {
    parts.logger.error({ err: error, deployment: row.id }, 'the release cannot be kept running')
    const { code, message } = failureOf(error, parts.releases.secretsOf(row))
    await failDeployment(parts, row, {
      stage: 'run',
      // A limit that it met is the reason; anything else is in the message.
      code: limitCodes.find((limit) => limit === code) ?? crashLoop,
      message: `The app ended again and again after it was started. ${message}`,
    })
    restarts.forget(row.id)
  }

  const watchAll = async (stopping: AbortSignal, looking: Set<Promise<void>>): Promise<void> => {
    for (const row of await parts.store.running()) {
      // Not awaited: an app that takes its time to start must not keep the others from being looked after.
      const look: Promise<void> = keep(row, stopping)
        .catch((error: unknown) => {
          parts.logger.error({ err: error, deployment: row.id }, 'a release could not be looked after')
        })
        .finally(() => looking.delete(look))
      looking.add(look)
    }
  }

  return {
    async begin() {
      for (const app of await parts.apps.list()) await parts.listening.open(app)
      await sweep(parts)
      // The caps may be others than before.
      parts.background.add(parts.caches.trim(), { what: 'clearing caches' })
    },

    async watch(stopping) {
      const looking = new Set<Promise<void>>()
      const chores = [
        { everyMs: watchIntervalMs, dueAt: 0, run: () => watchAll(stopping, looking) },
        { everyMs: openAgainMs, dueAt: performance.now() + openAgainMs, run: () => parts.listening.openRest() },
        { everyMs: sweepIntervalMs, dueAt: performance.now() + sweepIntervalMs, run: () => sweep(parts) },
      ]
      while (!stopping.aborted) {
        for (const chore of chores) {
          if (performance.now() < chore.dueAt || stopping.aborted) continue
          chore.dueAt = performance.now() + chore.everyMs
          await chore.run().catch((error: unknown) => {
            parts.logger.warn({ err: error }, 'the apps could not be looked after')
          })
        }
        await sleepUntilAborted(watchIntervalMs, stopping)
      }
      await Promise.all(looking)
    },

    async stopAll() {
      const rows = await parts.store.running()
      const stop = async (row: DeploymentRow): Promise<void> => {
        // Not open is an app whose address another program holds.
        if (parts.gateway.current(row.app_id) !== null) parts.gateway.route(row.app_id, null)
        if (row.instance !== null) await parts.runner.stop(row.instance, { graceMs: stopGraceMs })
      }
      await Promise.all(
        rows.map((row) =>
          stop(row).catch((error: unknown) => {
            parts.logger.error({ err: error, deployment: row.id }, 'an app could not be stopped')
          }),
        ),
      )
    },
  }
}
