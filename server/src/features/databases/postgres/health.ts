import { unlessAborted } from '../../../platform/abort.ts'
import type { Logger } from '../../../platform/logger.ts'
import type { Engine } from './engine.ts'

export interface EngineHealth {
  check(): Promise<void>
  problems(): readonly string[]
  /** Returns 1 for each instance that answers, otherwise 0. */
  answering(): Readonly<Record<string, number>>
  /** Returns how full each instance's queue of notifications is, from 0 to 1. */
  notifications(): Readonly<Record<string, number>>
}

const timeoutMs = 3_000

export function createEngineHealth(engine: Pick<Engine, 'instances'>, logger: Logger): EngineHealth {
  /**
   * The fill level of the queue of notifications from 0 to 1, by version; `null` for an instance that does not answer.
   */
  let seen: ReadonlyMap<string, number | null> = new Map()

  const look = async (): Promise<ReadonlyMap<string, number | null>> => {
    const looks = [...engine.instances()].map(async ([version, instance]) => {
      const asked = instance?.sessions.notificationUsage() ?? Promise.reject(new Error('it does not run'))
      const usage = await unlessAborted(asked, AbortSignal.timeout(timeoutMs)).catch(() => null)
      return [version, usage] as const
    })
    return new Map(await Promise.all(looks))
  }
  const byVersion = (value: (usage: number | null) => number) =>
    Object.fromEntries([...seen].map(([version, usage]) => [version, value(usage)]))

  return {
    async check() {
      const now = await look()
      for (const [version, usage] of now) {
        const was = seen.get(version)
        if (usage === null && was !== null) logger.error({ version }, problem(version))
        if (usage !== null && was === null) logger.info({ version }, "PostgreSQL of users' databases answers again")
      }
      seen = now
    },
    problems: () => [...seen].filter(([, usage]) => usage === null).map(([version]) => problem(version)),
    answering: () => byVersion((usage) => (usage === null ? 0 : 1)),
    notifications: () => byVersion((usage) => usage ?? 0),
  }
}

const problem = (version: string): string => `PostgreSQL ${version} of users' databases does not answer`
