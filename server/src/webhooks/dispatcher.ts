import type { ClientConfig } from 'pg'
import { sleepUntilAborted } from '../platform/abort.ts'
import { listen } from '../platform/database/notifications.ts'
import type { Database } from '../platform/database.ts'
import type { Logger } from '../platform/logger.ts'
import type { Outbound } from '../platform/outbound.ts'
import { startPeriodic } from '../platform/periodic.ts'
import type { SecretBox } from '../platform/secrets.ts'
import { createSlots, type Slots } from '../platform/slots.ts'
import { createDueQueries, type DueDeliveries, type DueDelivery, type DueQueries, maxHeldFailing } from './due.ts'
import { changedChannel, dueChannel } from './outbox.ts'
import { createRecorder, type Recorder, removeExcess, removeOld } from './record.ts'
import { nextAfter } from './retries.ts'
import { createSender, messageOf, type Sender, type SendResult } from './send.ts'

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
function createDispatcher(dependencies: DispatcherDependencies): Dispatcher {
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

/** The lanes of all endpoints that have something to send. */
interface Lanes {
  /** Returns the lane of an endpoint, a new one if there is none. */
  of(webhookId: string): Lane
  all(): Lane[]
  /** Called after a change of a lane: requests a read for it, or removes it when it is idle. */
  update(lane: Lane): void
}

/** `onUnread` is called when a lane should be read from the database. */
function createLanes({ onUnread }: { onUnread: () => void }): Lanes {
  const lanes = new Map<string, Lane>()
  return {
    of(webhookId) {
      const lane = lanes.get(webhookId) ?? createLane(webhookId)
      lanes.set(webhookId, lane)
      return lane
    },
    all: () => [...lanes.values()],
    update(lane) {
      if (shouldRead(lane)) onUnread()
      else if (isIdle(lane, performance.now())) lanes.delete(lane.webhookId)
    },
  }
}

export interface ReaderDependencies {
  readonly due: DueQueries
  readonly lanes: Lanes
  /** Called for each lane after it was read. */
  readonly onRead: (lane: Lane) => void
  readonly logger: Logger
}

export interface Reader {
  /** Reads the lanes that should be read. */
  wake(): void
  /** Makes the next check of all endpoints due within so many milliseconds. */
  sweepWithin(ms: number): void
  stop(): Promise<void>
}

/** Endpoints in one query. */
const batchSize = 100

/** How often all endpoints are checked in case a notification was missed, and how often at most. */
const sweepMs = 30_000
const minSweepMs = 250

const retryMs = 1_000

/** Reads due deliveries from the database: after a notification, and when the next delivery becomes due. */
function startReader({ due, lanes, onRead, logger }: ReaderDependencies): Reader {
  const stopping = new AbortController()
  /** By `performance.now()`, because the clock may be set back. */
  let nextSweep = 0
  let woken = Promise.withResolvers<void>()

  const sweepWithin = (ms: number): void => {
    const time = performance.now() + ms
    if (time >= nextSweep) return
    nextSweep = time
    woken.resolve()
  }

  /** Finds the endpoints that have something due, and the time when the next one will. */
  const sweep = async (): Promise<void> => {
    const now = Date.now()
    nextSweep = performance.now() + sweepMs
    for (const lane of lanes.all()) lanes.update(lane)
    for (const { webhookId, at } of await due.findWaiting()) {
      if (at.getTime() <= now) lanes.of(webhookId).unread = true
      else sweepWithin(Math.max(at.getTime() - now, minSweepMs))
    }
  }

  const read = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      woken = Promise.withResolvers()
      try {
        if (performance.now() >= nextSweep) await sweep()
        for (const lane of await readLanes(due, lanes)) onRead(lane)
      } catch (error) {
        logger.warn({ err: error }, 'due webhooks cannot be read yet')
        await sleepUntilAborted(retryMs, stopping.signal)
        nextSweep = 0
        continue
      }
      if (lanes.all().some(shouldRead)) continue
      const timer = setTimeout(woken.resolve, Math.max(0, nextSweep - performance.now()))
      await woken.promise
      clearTimeout(timer)
    }
  }
  const reading = read()

  return {
    wake: () => woken.resolve(),
    sweepWithin,
    async stop() {
      stopping.abort()
      woken.resolve()
      await reading
    },
  }
}

/** Reads what is due for a number of lanes, and returns those lanes. */
async function readLanes(due: DueQueries, lanes: Lanes): Promise<Lane[]> {
  const batch = lanes.all().filter(shouldRead).slice(0, batchSize)
  if (batch.length === 0) return []
  const requests = batch.map((lane) => ({ webhookId: lane.webhookId, limit: room(lane), held: [...lane.held] }))
  const queues = batch.map((lane) => lane.queue)
  for (const lane of batch) {
    lane.reading = true
    // A notification from here on sets it again, and the lane is read once more.
    lane.unread = false
  }
  try {
    const found = new Map((await due.findDue(requests)).map((one) => [one.webhookId, one]))
    batch.forEach((lane, at) => {
      const deliveries = found.get(lane.webhookId)
      // When the webhook was changed meanwhile its queue was replaced, and it is read again.
      if (deliveries !== undefined && lane.queue === queues[at]) enqueue(lane, deliveries)
    })
  } finally {
    for (const lane of batch) lane.reading = false
  }
  return batch
}

/** Attempts under way to one endpoint. One whose last attempt failed gets one request at a time. */
const mostOfAnEndpoint = 10

/** Deliveries of one endpoint in memory, queued, under way or being recorded, as long as it does not fail. */
const maxHeld = 200

/** The queue of one endpoint, in memory for as long as there is something to send. */
interface Lane {
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

function createLane(webhookId: string): Lane {
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
const room = (lane: Lane): number => capacity(lane) - lane.held.size

/** True when more should be read from the database: there may be something, and at least half of the room is free. */
const shouldRead = (lane: Lane): boolean => lane.unread && !lane.reading && lane.held.size <= capacity(lane) / 2

/** True when the lane knows nothing that the database does not. */
const isIdle = (lane: Lane, now: number): boolean =>
  !lane.unread && !lane.reading && lane.held.size === 0 && lane.earliest <= now

/** True when the next attempt may begin, as far as this endpoint alone is concerned. */
const mayBegin = (lane: Lane): boolean => lane.queue.length > 0 && lane.underWay < (lane.failing ? 1 : mostOfAnEndpoint)

/** True when the rate allows an attempt now. Otherwise `retry` is called when it does. */
function rateAllows(lane: Lane, retry: () => void): boolean {
  const wait = lane.earliest - performance.now()
  if (wait <= 0) return true
  lane.timer ??= setTimeout(() => {
    lane.timer = undefined
    retry()
  }, wait)
  return false
}

/** Removes the next delivery from the queue, which is not empty, and counts its attempt as under way. */
function takeNext(lane: Lane): DueDelivery {
  lane.underWay++
  if (lane.rate !== null) lane.earliest = Math.max(lane.earliest, performance.now()) + 1000 / lane.rate
  return lane.queue.shift() as DueDelivery
}

function enqueue(lane: Lane, due: DueDeliveries): void {
  lane.rate = due.rate
  // With attempts under way, their results are newer than what was read.
  if (lane.held.size === 0) lane.failing = due.failing
  if (due.more) lane.unread = true
  lane.queue.push(...due.deliveries)
  for (const { id } of due.deliveries) lane.held.add(id)
}

/** Drops the queued deliveries, which are then read again. */
function clearQueue(lane: Lane): void {
  for (const { id } of lane.queue) lane.held.delete(id)
  lane.queue = []
  lane.unread = true
}

const capacity = (lane: Lane): number => (lane.failing ? maxHeldFailing : maxHeld)

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
const mostOfAllEndpoints = 500
const maxUnderWayFailing = 100

const graceMs = 5_000

/**
 * Makes the attempts of all lanes. Failing endpoints share a smaller number of slots of their own: when many of them
 * hang, they delay each other and nobody else.
 */
function createRunner(dependencies: RunnerDependencies): Runner {
  const { lanes, logger, recorder, onNextAttempt } = dependencies
  const steady = createSlots<Lane>(mostOfAllEndpoints)
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

export interface SendingDependencies {
  readonly database: Database
  /** For the connection that listens for notifications. */
  readonly connection: ClientConfig
  readonly secrets: SecretBox
  readonly outbound: Outbound
  /** How long events and their deliveries are kept. */
  readonly retentionMs: number
  /** Returns how many deliveries an account may keep. */
  readonly mostDeliveries: (accountId: string) => Promise<number>
  readonly logger: Logger
}

export interface Sending {
  /** Looks at once for what is due. */
  wake(): void
  stop(): Promise<void>
}

const cleaningMs = 3_600_000

/** Sends deliveries as soon as they are due, and removes old ones. */
export function startSending(dependencies: SendingDependencies): Sending {
  const { database, connection, secrets, outbound, retentionMs, mostDeliveries, logger } = dependencies
  const sender = createSender({ outbound })
  const dispatcher = createDispatcher({
    due: createDueQueries({ database, secrets, logger }),
    recorder: createRecorder({ database, logger }),
    sender,
    logger,
  })
  const listener = listen({
    connection,
    logger,
    channels: { [dueChannel]: dispatcher.wake, [changedChannel]: dispatcher.forget },
    onListening: dispatcher.wakeAll,
  })
  const cleaning = startPeriodic({
    name: 'the removal of old webhook deliveries',
    everyMs: cleaningMs,
    work: async (signal) => {
      await removeOld(database, new Date(Date.now() - retentionMs), signal)
      await removeExcess(database, mostDeliveries, signal)
    },
    logger,
  })
  return {
    wake: dispatcher.wakeAll,
    async stop() {
      await Promise.all([listener.stop(), cleaning.stop()])
      await dispatcher.stop()
      await sender.close()
    },
  }
}

interface AttemptDependencies {
  readonly sender: Sender
  readonly recorder: Recorder
  readonly logger: Logger
}

/**
 * Sends a delivery once and records the result. `onAnswer` is called in between: recording does not occupy the endpoint.
 * Resolves with the time of the next attempt, or `null` when there is none. Rejects with the signal's reason when that
 * aborted the attempt.
 */
async function attempt(
  { sender, recorder, logger }: AttemptDependencies,
  delivery: DueDelivery,
  onAnswer: (result: SendResult) => void,
  signal: AbortSignal,
): Promise<{ readonly nextAt: Date | null }> {
  const at = new Date()
  const startedAt = performance.now()
  const message = messageOf(delivery, delivery.keys, at)
  const result = await sender.send(message, signal)
  const durationMs = performance.now() - startedAt
  onAnswer(result)
  // An attempt that the server's own stop has aborted does not count as a failure of the endpoint.
  if (!result.ok) signal.throwIfAborted()
  const status = result.answer?.status ?? null
  const retryAfter = result.answer?.headers['retry-after'] ?? null
  const next = nextAfter({ ok: result.ok, status, retryAfter }, delivery.failures, new Date(), Math.random())
  const { sendAgain } = await recorder.record({
    deliveryId: delivery.id,
    webhookId: delivery.webhookId,
    round: delivery.round,
    at,
    durationMs,
    url: message.url,
    requestHeaders: message.headers,
    result,
    next,
  })
  const about = { delivery: delivery.id, event: delivery.eventId, webhook: delivery.webhookId, status }
  if (result.ok) logger.debug(about, 'webhook delivered')
  else logger.info({ ...about, error: result.error }, 'webhook attempt failed')
  if (sendAgain) return { nextAt: new Date() }
  return { nextAt: next.status === 'pending' ? next.at : null }
}
