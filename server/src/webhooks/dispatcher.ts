import { sleepUntilAborted } from '../platform/abort.ts'
import { type AttemptDependencies, attempt } from './attempt.ts'
import type { DueDelivery, DueQueries } from './due.ts'
import { add, createLane, forgetQueue, isIdle, type Lane, mayBegin, room, wantsMore } from './lane.ts'
import { createPlaces, type Places } from './places.ts'

export interface DispatcherDependencies extends AttemptDependencies {
  readonly due: DueQueries
}

export interface Dispatcher {
  /** Something may be due for a receiver. */
  wake(webhookId: string): void
  /** A receiver has changed: what was read of it before is not used any more. */
  forget(webhookId: string): void
  /** Anything may be due, or may have changed. */
  wakeAll(): void
  /** Takes nothing new up, and lets what is under way end for a short while. What is cut off is sent again. */
  stop(): Promise<void>
}

/** Attempts under way: to all receivers that take what they are sent, and to all whose last attempt failed. */
const mostUnderWay = 500
const mostUnderWayFailing = 100

/** Receivers that one question to the database is about. */
const mostAsked = 100

/** How often everything is looked at, should a notification have been missed; and how often at most. */
const sweepMs = 30_000
const leastSweepMs = 250

const graceMs = 5_000
const againMs = 1_000

/**
 * Makes the attempts that are due. The deliveries' rows are the queue, and nothing is marked in them while an attempt is
 * under way: there is one server on a database, and after its death all that it had not recorded is due as before.
 *
 * Every receiver has a lane of its own with a few places, so that none waits for another. Those that fail share a
 * smaller number of places apart from the others: when many hang, they delay each other alone.
 */
export function createDispatcher(dependencies: DispatcherDependencies): Dispatcher {
  const { due, logger } = dependencies
  const lanes = new Map<string, Lane>()
  const steady = createPlaces<Lane>(mostUnderWay)
  const failing = createPlaces<Lane>(mostUnderWayFailing)
  const stopping = new AbortController()
  const cutting = new AbortController()
  const underWay = new Set<Promise<void>>()
  let nextSweep = 0
  let woken = Promise.withResolvers<void>()

  const laneOf = (webhookId: string): Lane => {
    const lane = lanes.get(webhookId) ?? createLane(webhookId)
    lanes.set(webhookId, lane)
    return lane
  }

  const sweepAt = (time: number): void => {
    if (time >= nextSweep) return
    nextSweep = time
    woken.resolve()
  }

  /** Begins as many attempts of a lane as it may. */
  const fill = (lane: Lane): void => {
    while (!stopping.signal.aborted && mayBegin(lane)) {
      const wait = lane.earliest - Date.now()
      if (wait > 0) {
        lane.timer ??= setTimeout(() => {
          lane.timer = undefined
          fill(lane)
        }, wait)
        break
      }
      const places = lane.failing ? failing : steady
      if (!places.take(lane)) break
      begin(lane, places)
    }
    settle(lane)
  }

  const begin = (lane: Lane, places: Places<Lane>): void => {
    lane.underWay++
    if (lane.rate !== null) lane.earliest = Math.max(lane.earliest, Date.now()) + 1000 / lane.rate
    const going = carryOut(lane, lane.queue.shift() as DueDelivery, places)
      // Only a stop ends an attempt without a record.
      .catch((error: unknown) => logger.debug({ err: error }, 'a webhook attempt was cut off; it is made again'))
      .finally(() => underWay.delete(going))
    underWay.add(going)
  }

  const carryOut = async (lane: Lane, delivery: DueDelivery, places: Places<Lane>): Promise<void> => {
    const onAnswer = ({ ok }: { ok: boolean }) => {
      lane.failing = !ok
      lane.underWay--
      places.release()
      // Whoever has waited for a place comes first.
      for (let next = places.next(); next !== undefined; next = places.next()) fill(next)
      fill(lane)
    }
    const { nextAt } = await attempt(dependencies, delivery, onAnswer, cutting.signal)
    lane.held.delete(delivery.id)
    if (nextAt !== null && nextAt.getTime() <= Date.now()) lane.hungry = true
    else if (nextAt !== null) sweepAt(nextAt.getTime())
    settle(lane)
  }

  /** What comes after a change of a lane: more is fetched for it, or it is given up. */
  const settle = (lane: Lane): void => {
    if (wantsMore(lane)) woken.resolve()
    else if (isIdle(lane, Date.now())) lanes.delete(lane.webhookId)
  }

  const fetchDue = async (): Promise<void> => {
    const asking = [...lanes.values()].filter(wantsMore).slice(0, mostAsked)
    if (asking.length === 0) return
    const wanted = asking.map((lane) => ({ webhookId: lane.webhookId, limit: room(lane), held: [...lane.held] }))
    const queues = asking.map((lane) => lane.queue)
    for (const lane of asking) {
      lane.asking = true
      // Whatever is told from here on is asked again.
      lane.hungry = false
    }
    try {
      const found = new Map((await due.findDue(wanted)).map((one) => [one.webhookId, one]))
      asking.forEach((lane, at) => {
        const due = found.get(lane.webhookId)
        // A receiver that has changed meanwhile is read again.
        if (due !== undefined && lane.queue === queues[at]) add(lane, due)
      })
    } finally {
      for (const lane of asking) lane.asking = false
    }
    for (const lane of asking) fill(lane)
  }

  /** Finds the receivers with something due, and when the next one will have. */
  const sweep = async (): Promise<void> => {
    const now = Date.now()
    nextSweep = now + sweepMs
    for (const lane of lanes.values()) settle(lane)
    for (const { webhookId, at } of await due.findWaiting()) {
      if (at.getTime() <= now) laneOf(webhookId).hungry = true
      else sweepAt(Math.max(at.getTime(), now + leastSweepMs))
    }
  }

  const work = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      woken = Promise.withResolvers()
      try {
        if (Date.now() >= nextSweep) await sweep()
        await fetchDue()
      } catch (error) {
        logger.warn({ err: error }, 'due webhooks cannot be read yet')
        await sleepUntilAborted(againMs, stopping.signal)
        nextSweep = 0
        continue
      }
      if ([...lanes.values()].some(wantsMore)) continue
      const timer = setTimeout(woken.resolve, Math.max(0, nextSweep - Date.now()))
      await woken.promise
      clearTimeout(timer)
    }
  }
  const working = work()

  return {
    wake(webhookId) {
      const lane = laneOf(webhookId)
      lane.hungry = true
      settle(lane)
    },
    forget(webhookId) {
      const lane = laneOf(webhookId)
      forgetQueue(lane)
      settle(lane)
    },
    wakeAll() {
      for (const lane of lanes.values()) forgetQueue(lane)
      sweepAt(0)
    },
    async stop() {
      stopping.abort()
      woken.resolve()
      for (const lane of lanes.values()) clearTimeout(lane.timer)
      const cut = setTimeout(() => {
        cutting.abort(new Error('the server is stopping'))
        dependencies.recorder.stop()
      }, graceMs)
      await working
      await Promise.all(underWay)
      clearTimeout(cut)
    },
  }
}
