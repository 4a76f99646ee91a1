import { createSlots, type Slots } from '../../platform/slots.ts'
import { type AttemptDependencies, attempt } from './attempt.ts'
import type { DueDelivery } from './due.ts'
import { type Lane, mayBegin, rateAllows, takeNext } from './lane.ts'
import type { Lanes } from './lanes.ts'

export interface RunnerDependencies extends AttemptDependencies {
  readonly lanes: Lanes
  /** Called with the milliseconds until a delivery's next attempt. */
  readonly onNextAttempt: (ms: number) => void
}

export interface Runner {
  /** Begins as many attempts of a lane as it may. */
  run(lane: Lane): void
  /** Begins no further attempts, waits a short while for those under way, and then aborts them. */
  stop(): Promise<void>
}

/** Attempts under way: to all endpoints that accept what they get, and to all whose last attempt failed. */
const maxUnderWay = 500
const maxUnderWayFailing = 100

const graceMs = 5_000

/**
 * Makes the attempts of all lanes. Failing endpoints share a smaller number of slots of their own: when many of them
 * hang, they delay each other and nobody else.
 */
export function createRunner(dependencies: RunnerDependencies): Runner {
  const { lanes, logger, recorder, onNextAttempt } = dependencies
  const steady = createSlots<Lane>(maxUnderWay)
  const failing = createSlots<Lane>(maxUnderWayFailing)
  const aborting = new AbortController()
  const underWay = new Set<Promise<void>>()
  let stopped = false

  const run = (lane: Lane): void => {
    while (!stopped && mayBegin(lane)) {
      if (!rateAllows(lane, () => run(lane))) break
      const slots = lane.failing ? failing : steady
      if (!slots.take(lane, () => run(lane))) break
      begin(lane, slots)
    }
    lanes.update(lane)
  }

  const begin = (lane: Lane, slots: Slots<Lane>): void => {
    const running = deliver(lane, takeNext(lane), slots)
      // Only a stop ends an attempt without a record.
      .catch((error: unknown) => logger.debug({ err: error }, 'a webhook attempt was aborted; it is made again'))
      .finally(() => underWay.delete(running))
    underWay.add(running)
  }

  const deliver = async (lane: Lane, delivery: DueDelivery, slots: Slots<Lane>): Promise<void> => {
    const onAnswer = ({ ok }: { ok: boolean }) => {
      lane.failing = !ok
      lane.underWay--
      // Lanes that wait for a slot come before this one.
      slots.release()
      run(lane)
    }
    const { nextAt } = await attempt(dependencies, delivery, onAnswer, aborting.signal)
    lane.held.delete(delivery.id)
    const waitMs = nextAt === null ? null : nextAt.getTime() - Date.now()
    if (waitMs !== null && waitMs <= 0) lane.unread = true
    else if (waitMs !== null) onNextAttempt(waitMs)
    lanes.update(lane)
  }

  return {
    run,
    async stop() {
      stopped = true
      for (const lane of lanes.all()) clearTimeout(lane.timer)
      const abort = setTimeout(() => {
        aborting.abort(new Error('the server is stopping'))
        recorder.stop()
      }, graceMs)
      await Promise.all(underWay)
      clearTimeout(abort)
    },
  }
}
