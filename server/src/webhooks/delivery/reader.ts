import { sleepUntilAborted } from '../../platform/abort.ts'
import type { Logger } from '../../platform/logger.ts'
import type { DueQueries } from './due.ts'
import { enqueue, type Lane, room, shouldRead } from './lane.ts'
import type { Lanes } from './lanes.ts'

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
export function startReader({ due, lanes, onRead, logger }: ReaderDependencies): Reader {
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
