import { type DueDeliveries, type DueDelivery, maxHeldFailing } from './due.ts'

/** Attempts under way to one endpoint. One whose last attempt failed gets one request at a time. */
const maxUnderWay = 10

/** Deliveries of one endpoint in memory, queued, under way or being recorded, as long as it does not fail. */
const maxHeld = 200

/** The queue of one endpoint, in memory for as long as there is something to send. */
export interface Lane {
  readonly webhookId: string
  queue: DueDelivery[]
  /** Ids of the deliveries in memory, which the database must not return again. */
  readonly held: Set<string>
  underWay: number
  /** Attempts a second at most. */
  rate: number | null
  /** True when the last attempt failed. */
  failing: boolean
  /** True when the database may have more that is due. */
  unread: boolean
  /** True while the database is being read for this lane. */
  reading: boolean
  /** The rate allows no attempt before this time of `performance.now()`. */
  earliest: number
  timer: NodeJS.Timeout | undefined
}

export function createLane(webhookId: string): Lane {
  return {
    webhookId,
    queue: [],
    held: new Set(),
    underWay: 0,
    rate: null,
    failing: false,
    unread: false,
    reading: false,
    earliest: 0,
    timer: undefined,
  }
}

/** Returns how many more deliveries the lane may hold. */
export const room = (lane: Lane): number => capacity(lane) - lane.held.size

/** True when more should be read from the database: there may be something, and at least half of the room is free. */
export const shouldRead = (lane: Lane): boolean => lane.unread && !lane.reading && lane.held.size <= capacity(lane) / 2

/** True when the lane knows nothing that the database does not. */
export const isIdle = (lane: Lane, now: number): boolean =>
  !lane.unread && !lane.reading && lane.held.size === 0 && lane.earliest <= now

/** True when the next attempt may begin, as far as this endpoint alone is concerned. */
export const mayBegin = (lane: Lane): boolean =>
  lane.queue.length > 0 && lane.underWay < (lane.failing ? 1 : maxUnderWay)

/** True when the rate allows an attempt now. Otherwise `retry` is called when it does. */
export function rateAllows(lane: Lane, retry: () => void): boolean {
  const wait = lane.earliest - performance.now()
  if (wait <= 0) return true
  lane.timer ??= setTimeout(() => {
    lane.timer = undefined
    retry()
  }, wait)
  return false
}

/** Removes the next delivery from the queue, which is not empty, and counts its attempt as under way. */
export function takeNext(lane: Lane): DueDelivery {
  lane.underWay++
  if (lane.rate !== null) lane.earliest = Math.max(lane.earliest, performance.now()) + 1000 / lane.rate
  return lane.queue.shift() as DueDelivery
}

export function enqueue(lane: Lane, due: DueDeliveries): void {
  lane.rate = due.rate
  // With attempts under way, their results are newer than what was read.
  if (lane.held.size === 0) lane.failing = due.failing
  if (due.more) lane.unread = true
  lane.queue.push(...due.deliveries)
  for (const { id } of due.deliveries) lane.held.add(id)
}

/** Drops the queued deliveries, which are then read again. */
export function clearQueue(lane: Lane): void {
  for (const { id } of lane.queue) lane.held.delete(id)
  lane.queue = []
  lane.unread = true
}

const capacity = (lane: Lane): number => (lane.failing ? maxHeldFailing : maxHeld)
