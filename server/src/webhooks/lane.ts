import { type Due, type DueDelivery, mostHeldFailing } from './due.ts'

/** Attempts under way to one receiver. One whose last attempt failed is asked one thing at a time. */
const mostUnderWay = 10

/** Deliveries of one receiver in memory, next in line, under way or being recorded, as long as it does not fail. */
const mostHeld = 200

/** One receiver, for as long as it has something to do. */
export interface Lane {
  readonly webhookId: string
  queue: DueDelivery[]
  /** Ids of what the database need not give again. */
  readonly held: Set<string>
  underWay: number
  rate: number | null
  /** Whether its last attempt failed. */
  failing: boolean
  /** Whether the database may have more for it. */
  hungry: boolean
  /** Whether the database is being asked. */
  asking: boolean
  /** Its rate allows no attempt before this time. */
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
    hungry: false,
    asking: false,
    earliest: 0,
    timer: undefined,
  }
}

/** How many more deliveries it may hold. */
export const room = (lane: Lane): number => capacity(lane) - lane.held.size

/** Whether the database is to be asked for more: there may be some, and half of the room is empty. */
export const wantsMore = (lane: Lane): boolean => lane.hungry && !lane.asking && lane.held.size <= capacity(lane) / 2

/** Whether nothing is known of it that the database does not know. */
export const isIdle = (lane: Lane, now: number): boolean =>
  !lane.hungry && !lane.asking && lane.held.size === 0 && lane.earliest <= now

/** Whether an attempt may begin, as far as the receiver itself is concerned. */
export const mayBegin = (lane: Lane): boolean =>
  lane.queue.length > 0 && lane.underWay < (lane.failing ? 1 : mostUnderWay)

export function add(lane: Lane, found: Due): void {
  lane.rate = found.rate
  // What is known of attempts just made is newer than what the database knew.
  if (lane.held.size === 0) lane.failing = found.failing
  if (found.more) lane.hungry = true
  lane.queue.push(...found.deliveries)
  for (const { id } of found.deliveries) lane.held.add(id)
}

/** Lets go of what is next in line, to be read again. */
export function forgetQueue(lane: Lane): void {
  for (const { id } of lane.queue) lane.held.delete(id)
  lane.queue = []
  lane.hungry = true
}

const capacity = (lane: Lane): number => (lane.failing ? mostHeldFailing : mostHeld)
