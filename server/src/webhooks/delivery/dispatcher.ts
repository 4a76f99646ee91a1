import type { AttemptDependencies } from './attempt.ts'
import type { DueQueries } from './due.ts'
import { clearQueue } from './lane.ts'
import { createLanes } from './lanes.ts'
import { startReader } from './reader.ts'
import { createRunner } from './runner.ts'

export interface DispatcherDependencies extends AttemptDependencies {
  readonly due: DueQueries
}

export interface Dispatcher {
  /** Tells that something may be due for an endpoint. */
  wake(webhookId: string): void
  /** Tells that a webhook has changed: deliveries read before are not used any more. */
  forget(webhookId: string): void
  /** Tells that anything may be due, and any webhook may have changed. */
  wakeAll(): void
  /** Begins nothing new, and waits a short while for attempts under way. Aborted attempts are made again later. */
  stop(): Promise<void>
}

/**
 * Makes the attempts that are due. The rows of the deliveries are the queue, and an attempt under way is not marked in
 * them: the leader alone makes attempts, and when it dies, everything that it had not recorded is still due.
 *
 * Every endpoint has a lane of its own, a queue in memory with a few attempts at a time, so that none waits for another.
 */
export function createDispatcher(dependencies: DispatcherDependencies): Dispatcher {
  const { due, logger } = dependencies
  const lanes = createLanes({ onUnread: () => reader.wake() })
  const runner = createRunner({ ...dependencies, lanes, onNextAttempt: (ms) => reader.sweepWithin(ms) })
  const reader = startReader({ due, lanes, onRead: runner.run, logger })

  return {
    wake(webhookId) {
      const lane = lanes.of(webhookId)
      lane.unread = true
      lanes.update(lane)
    },
    forget(webhookId) {
      const lane = lanes.of(webhookId)
      clearQueue(lane)
      lanes.update(lane)
    },
    wakeAll() {
      for (const lane of lanes.all()) clearQueue(lane)
      reader.sweepWithin(0)
    },
    async stop() {
      await Promise.all([runner.stop(), reader.stop()])
    },
  }
}
