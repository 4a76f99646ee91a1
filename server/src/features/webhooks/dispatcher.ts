import type { ClientConfig } from 'pg'
import { sleepUntilAborted } from '../../platform/abort.ts'
import { listen } from '../../platform/database/notifications.ts'
import type { Database } from '../../platform/database.ts'
import type { Logger } from '../../platform/logger.ts'
import type { Outbound } from '../../platform/outbound.ts'
import { startPeriodic } from '../../platform/periodic.ts'
import type { SecretBox } from '../../platform/secrets.ts'
import { createSlots, type Slots } from '../../platform/slots.ts'
import { createDueQueries, type DueDeliveries, type DueDelivery, type DueQueries, maxHeldFailing } from './due.ts'
import { changedChannel, dueChannel } from './outbox.ts'
import { createRecorder, type Recorder, removeExcess, removeOld } from './record.ts'
import { nextAfter } from './retries.ts'
import { createSender, messageOf, type Sender, type SendResult } from './send.ts'

interface SendingDependencies {
  readonly database: Database
  readonly connection: ClientConfig
  readonly secrets: SecretBox
  readonly outbound: Outbound
  readonly retentionMs: number
  readonly mostDeliveries: (accountId: string) => Promise<number>
  readonly logger: Logger
}

export interface Sending {
  wake(): void
  stop(): Promise<void>
}

const cleaningMs = 3_600_000

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

interface DispatcherDependencies extends AttemptDependencies {
  readonly due: DueQueries
}

export interface Dispatcher {
  /** Reports that something may be due for an endpoint. */
  wake(webhookId: string): void
  /** Reports that a webhook has changed. Deliveries that were read before are discarded. */
  forget(webhookId: string): void
  /** Reports that anything may be due, and any webhook may have changed. */
  wakeAll(): void
  /** Begins no new attempts, and waits a short time for running attempts. Aborted attempts are repeated later. */
  stop(): Promise<void>
}

/**
 * Makes the due attempts. The rows of the deliveries are the queue, and do not mark running attempts: only the leader
 * makes attempts, and when it dies, everything that it has not recorded is still due.
 *
 * Every endpoint has a queue in memory and a few concurrent attempts, so that no endpoint waits for another.
 */
function createDispatcher(dependencies: DispatcherDependencies): Dispatcher {
  const { due, logger } = dependencies
  const endpoints = createEndpoints({ onUnread: () => reader.wake() })
  const attempts = createAttempts({ ...dependencies, endpoints, onNextAttempt: (ms) => reader.sweepWithin(ms) })
  const reader = startReader({ due, endpoints, onRead: attempts.begin, logger })

  return {
    wake(webhookId) {
      const endpoint = endpoints.of(webhookId)
      endpoint.unread = true
      endpoints.update(endpoint)
    },
    forget(webhookId) {
      const endpoint = endpoints.of(webhookId)
      clearQueue(endpoint)
      endpoints.update(endpoint)
    },
    wakeAll() {
      for (const endpoint of endpoints.all()) clearQueue(endpoint)
      reader.sweepWithin(0)
    },
    async stop() {
      await Promise.all([attempts.stop(), reader.stop()])
    },
  }
}

interface Endpoints {
  of(webhookId: string): Endpoint
  all(): Endpoint[]
  /** Call it after a change of an endpoint: reads its deliveries, or removes an idle endpoint. */
  update(endpoint: Endpoint): void
}

function createEndpoints({ onUnread }: { onUnread: () => void }): Endpoints {
  const endpoints = new Map<string, Endpoint>()
  return {
    of(webhookId) {
      const endpoint = endpoints.get(webhookId) ?? createEndpoint(webhookId)
      endpoints.set(webhookId, endpoint)
      return endpoint
    },
    all: () => [...endpoints.values()],
    update(endpoint) {
      if (shouldRead(endpoint)) onUnread()
      else if (isIdle(endpoint, performance.now())) endpoints.delete(endpoint.webhookId)
    },
  }
}

interface ReaderDependencies {
  readonly due: DueQueries
  readonly endpoints: Endpoints
  readonly onRead: (endpoint: Endpoint) => void
  readonly logger: Logger
}

export interface Reader {
  wake(): void
  sweepWithin(ms: number): void
  stop(): Promise<void>
}

const batchSize = 100

/** The interval between checks of all endpoints in case a notification was missed, and the shortest interval. */
const sweepMs = 30_000
const minSweepMs = 250

const retryMs = 1_000

function startReader({ due, endpoints, onRead, logger }: ReaderDependencies): Reader {
  const stopping = new AbortController()
  /** In `performance.now()` time, because the clock may be set back. */
  let nextSweep = 0
  let woken = Promise.withResolvers<void>()

  const sweepWithin = (ms: number): void => {
    const time = performance.now() + ms
    if (time >= nextSweep) return
    nextSweep = time
    woken.resolve()
  }

  const sweep = async (): Promise<void> => {
    const now = Date.now()
    nextSweep = performance.now() + sweepMs
    for (const endpoint of endpoints.all()) endpoints.update(endpoint)
    for (const { webhookId, at } of await due.findWaiting()) {
      if (at.getTime() <= now) endpoints.of(webhookId).unread = true
      else sweepWithin(Math.max(at.getTime() - now, minSweepMs))
    }
  }

  const read = async (): Promise<void> => {
    while (!stopping.signal.aborted) {
      woken = Promise.withResolvers()
      try {
        if (performance.now() >= nextSweep) await sweep()
        for (const endpoint of await readEndpoints(due, endpoints)) onRead(endpoint)
      } catch (error) {
        logger.warn({ err: error }, 'due webhooks cannot be read yet')
        await sleepUntilAborted(retryMs, stopping.signal)
        nextSweep = 0
        continue
      }
      if (endpoints.all().some(shouldRead)) continue
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

async function readEndpoints(due: DueQueries, endpoints: Endpoints): Promise<Endpoint[]> {
  const batch = endpoints.all().filter(shouldRead).slice(0, batchSize)
  if (batch.length === 0) return []
  const requests = batch.map((endpoint) => ({
    webhookId: endpoint.webhookId,
    limit: room(endpoint),
    held: [...endpoint.held],
  }))
  const queues = batch.map((endpoint) => endpoint.queue)
  for (const endpoint of batch) {
    endpoint.reading = true
    // A later notification sets it again, and the endpoint is read once more.
    endpoint.unread = false
  }
  try {
    const found = new Map((await due.findDue(requests)).map((one) => [one.webhookId, one]))
    batch.forEach((endpoint, at) => {
      const deliveries = found.get(endpoint.webhookId)
      // If the webhook changed during the read, its queue was replaced, and it is read again.
      if (deliveries !== undefined && endpoint.queue === queues[at]) enqueue(endpoint, deliveries)
    })
  } finally {
    for (const endpoint of batch) endpoint.reading = false
  }
  return batch
}

/** The most concurrent attempts to one endpoint. After a failed attempt it is one. */
const mostOfAnEndpoint = 10

/** The most deliveries of a healthy endpoint in memory: queued, running or being recorded. */
const maxHeld = 200

interface Endpoint {
  readonly webhookId: string
  queue: DueDelivery[]
  /** Ids of the deliveries in memory, which the database must not return again. */
  readonly held: Set<string>
  underWay: number
  /** The most attempts per second; `null` for no limit. */
  rate: number | null
  failing: boolean
  /** True when the database may have more due deliveries. */
  unread: boolean
  reading: boolean
  /** The rate allows no attempt before this time of `performance.now()`. */
  earliest: number
  timer: NodeJS.Timeout | undefined
}

function createEndpoint(webhookId: string): Endpoint {
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

const room = (endpoint: Endpoint): number => capacity(endpoint) - endpoint.held.size

/** True when the database may have more, and memory has at least half of its capacity free. */
const shouldRead = (endpoint: Endpoint): boolean =>
  endpoint.unread && !endpoint.reading && endpoint.held.size <= capacity(endpoint) / 2

/** True when memory has nothing that the database does not have. */
const isIdle = (endpoint: Endpoint, now: number): boolean =>
  !endpoint.unread && !endpoint.reading && endpoint.held.size === 0 && endpoint.earliest <= now

/** True when the endpoint allows another attempt; slots and rate may still forbid it. */
const mayBegin = (endpoint: Endpoint): boolean =>
  endpoint.queue.length > 0 && endpoint.underWay < (endpoint.failing ? 1 : mostOfAnEndpoint)

/** True when the rate allows an attempt now. Otherwise `retry` is called as soon as it does. */
function rateAllows(endpoint: Endpoint, retry: () => void): boolean {
  const wait = endpoint.earliest - performance.now()
  if (wait <= 0) return true
  endpoint.timer ??= setTimeout(() => {
    endpoint.timer = undefined
    retry()
  }, wait)
  return false
}

function takeNext(endpoint: Endpoint): DueDelivery {
  endpoint.underWay++
  if (endpoint.rate !== null) endpoint.earliest = Math.max(endpoint.earliest, performance.now()) + 1000 / endpoint.rate
  return endpoint.queue.shift() as DueDelivery
}

function enqueue(endpoint: Endpoint, due: DueDeliveries): void {
  endpoint.rate = due.rate
  // The results of running attempts are newer than what was read.
  if (endpoint.held.size === 0) endpoint.failing = due.failing
  if (due.more) endpoint.unread = true
  endpoint.queue.push(...due.deliveries)
  for (const { id } of due.deliveries) endpoint.held.add(id)
}

function clearQueue(endpoint: Endpoint): void {
  for (const { id } of endpoint.queue) endpoint.held.delete(id)
  endpoint.queue = []
  endpoint.unread = true
}

const capacity = (endpoint: Endpoint): number => (endpoint.failing ? maxHeldFailing : maxHeld)

interface AttemptsDependencies extends AttemptDependencies {
  readonly endpoints: Endpoints
  readonly onNextAttempt: (ms: number) => void
}

export interface Attempts {
  begin(endpoint: Endpoint): void
  stop(): Promise<void>
}

/** The most concurrent attempts to all healthy endpoints, and to all endpoints whose last attempt failed. */
const mostOfAllEndpoints = 500
const maxUnderWayFailing = 100

const graceMs = 5_000

/**
 * Makes the attempts to all endpoints. Failing endpoints share fewer slots, so that many hanging endpoints delay no
 * healthy endpoint.
 */
function createAttempts(dependencies: AttemptsDependencies): Attempts {
  const { endpoints, logger, recorder, onNextAttempt } = dependencies
  const steady = createSlots<Endpoint>(mostOfAllEndpoints)
  const failing = createSlots<Endpoint>(maxUnderWayFailing)
  const aborting = new AbortController()
  const underWay = new Set<Promise<void>>()
  let stopped = false

  const begin = (endpoint: Endpoint): void => {
    while (!stopped && mayBegin(endpoint)) {
      if (!rateAllows(endpoint, () => begin(endpoint))) break
      const slots = endpoint.failing ? failing : steady
      if (!slots.take(endpoint, () => begin(endpoint))) break
      beginOne(endpoint, slots)
    }
    endpoints.update(endpoint)
  }

  const beginOne = (endpoint: Endpoint, slots: Slots<Endpoint>): void => {
    const running = deliver(endpoint, takeNext(endpoint), slots)
      // Only a stop aborts an attempt without a record.
      .catch((error: unknown) => logger.debug({ err: error }, 'a webhook attempt was aborted; it will be repeated'))
      .finally(() => underWay.delete(running))
    underWay.add(running)
  }

  const deliver = async (endpoint: Endpoint, delivery: DueDelivery, slots: Slots<Endpoint>): Promise<void> => {
    const onAnswer = ({ ok }: { ok: boolean }) => {
      endpoint.failing = !ok
      endpoint.underWay--
      // Endpoints that wait for a slot come before this one.
      slots.release()
      begin(endpoint)
    }
    const { nextAt } = await attempt(dependencies, delivery, onAnswer, aborting.signal)
    endpoint.held.delete(delivery.id)
    const waitMs = nextAt === null ? null : nextAt.getTime() - Date.now()
    if (waitMs !== null && waitMs <= 0) endpoint.unread = true
    else if (waitMs !== null) onNextAttempt(waitMs)
    endpoints.update(endpoint)
  }

  return {
    begin,
    async stop() {
      stopped = true
      for (const endpoint of endpoints.all()) clearTimeout(endpoint.timer)
      const abort = setTimeout(() => {
        aborting.abort(new Error('the server is stopping'))
        recorder.stop()
      }, graceMs)
      await Promise.all(underWay)
      clearTimeout(abort)
    },
  }
}

interface AttemptDependencies {
  readonly sender: Sender
  readonly recorder: Recorder
  readonly logger: Logger
}

/**
 * Sends a delivery once and records the result. Calls `onAnswer` before recording, so that recording does not occupy
 * the endpoint. Resolves with the time of the next attempt, or `null`. Rejects with the signal's reason when the signal
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
  // An attempt that the server's stop has aborted does not count as a failure of the endpoint.
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
