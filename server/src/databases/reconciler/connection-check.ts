import type { Logger } from '../../platform/logger.ts'
import { type ConnectionLimit, limitChanges } from '../connection-shares.ts'
import type { Engine } from '../engines/engine.ts'
import type { Instance } from '../engines/instance.ts'
import type { IdsOf } from './session-check.ts'

/**
 * Returns a function that lowers the connection limits of databases while an instance is nearly full, ends their
 * sessions above the new limits, and restores the limits when there is room. `createConnectionLimitsCheck` restores
 * limits that an earlier server lowered.
 */
export function createConnectionCheck({
  engine,
  idsOf,
  logger,
}: {
  readonly engine: Pick<Engine, 'instances'>
  readonly idsOf: IdsOf
  readonly logger: Logger
}): (signal: AbortSignal) => Promise<void> {
  /** The former limits by database; each database is in one instance. */
  const lowered = new Map<Instance, Map<string, number>>()

  const lower = async (instance: Instance, { name, limit }: ConnectionLimit, signal: AbortSignal): Promise<void> => {
    try {
      await instance.roles.limitConnections(name, limit, signal)
    } finally {
      await instance.sessions.endSurplus(name, limit)
    }
  }

  const check = async (instance: Instance, signal: AbortSignal): Promise<void> => {
    const former = lowered.get(instance) ?? new Map<string, number>()
    lowered.set(instance, former)
    const { most, uses } = await instance.statistics.connectionUse([...former.keys()])
    const changes = limitChanges(uses, former, most)
    // A database that is missing was deleted.
    for (const name of former.keys()) if (!uses.some((use) => use.name === name)) former.delete(name)
    for (const { name, limit } of uses) {
      if (!former.has(name) && changes.lower.some((change) => change.name === name)) former.set(name, limit)
    }
    if (changes.lower.length > 0) {
      logger.warn(
        { databases: await idsOf(changes.lower.map(({ name }) => name)), most },
        'connections to databases run low: those with the most have fewer',
      )
    }
    await allSettled([
      ...changes.lower.map((change) => lower(instance, change, signal)),
      ...changes.raise.map(async ({ name, limit }) => {
        await instance.roles.limitConnections(name, limit, signal)
        former.delete(name)
      }),
    ])
  }

  return async (signal) => {
    const instances = [...engine.instances().values()].filter((instance) => instance !== null)
    await allSettled(instances.map((instance) => check(instance, signal)))
  }
}

/** Waits for all work, so that one database does not delay the others; then rejects with the first error. */
async function allSettled(work: readonly Promise<void>[]): Promise<void> {
  await Promise.allSettled(work)
  await Promise.all(work)
}
