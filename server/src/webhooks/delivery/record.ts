import { sleepUntilAborted } from '../../platform/abort.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import type { Logger } from '../../platform/logger.ts'
import { type AttemptRecord, isGone, writeAttempts } from './record-attempts.ts'
import { type DisabledWebhook, updateHealth } from './record-health.ts'

export interface Recorded {
  /** True when the delivery is due again at once, independent of the attempt's result. */
  readonly sendAgain: boolean
}

export interface Recorder {
  /** Resolves when the attempt is recorded. Waits for a database that is away; rejects only after `stop`. */
  record(attempt: AttemptRecord): Promise<Recorded>
  /** Gives up attempts that cannot be written: they are made again after the next start. */
  stop(): void
}

const batchSize = 100
const retryMs = 1_000

/**
 * Records attempts: the attempt itself, the delivery's next due time and the endpoint's health in one transaction, so that
 * a crash may repeat an attempt but never loses one. Attempts that end while a transaction is under way share the next one.
 */
export function createRecorder({ database, logger }: { database: Database; logger: Logger }): Recorder {
  const waiting: { attempt: AttemptRecord; done: PromiseWithResolvers<Recorded> }[] = []
  const stopping = new AbortController()
  let writing = false

  /** Returns the ids of the deliveries to send again. */
  const write = async (batch: readonly AttemptRecord[]): Promise<ReadonlySet<string>> => {
    for (;;) {
      try {
        const written = await database.transaction().execute((transaction) => writeBatch(transaction, batch))
        for (const { id, reason } of written.disabled) logger.warn({ webhook: id, reason }, 'webhook disabled')
        return written.sendAgain
      } catch (error) {
        logger.warn({ err: error }, 'webhook attempts cannot be recorded yet')
        await sleepUntilAborted(retryMs, stopping.signal)
        stopping.signal.throwIfAborted()
      }
    }
  }

  const writeAll = async (): Promise<void> => {
    writing = true
    while (waiting.length > 0) {
      const batch = waiting.splice(0, batchSize)
      try {
        const sendAgain = await write(batch.map(({ attempt }) => attempt))
        for (const { attempt, done } of batch) done.resolve({ sendAgain: sendAgain.has(attempt.deliveryId) })
      } catch (error) {
        for (const { done } of batch) done.reject(error)
      }
    }
    writing = false
  }

  return {
    record(attempt) {
      const done = Promise.withResolvers<Recorded>()
      waiting.push({ attempt, done })
      if (!writing) void writeAll()
      return done.promise
    },
    stop: () => stopping.abort(new Error('the server is stopping')),
  }
}

async function writeBatch(
  transaction: Transaction,
  batch: readonly AttemptRecord[],
): Promise<{ disabled: DisabledWebhook[]; sendAgain: ReadonlySet<string> }> {
  // Webhooks are locked before deliveries, in the order in which the deletion of a webhook locks them.
  const { disabled, urls } = await updateHealth(transaction, batch)
  // A 410 from a URL that was replaced meanwhile does not end the delivery: it is sent to the current URL.
  const moved = new Set(batch.filter((attempt) => isGone(attempt) && urls.get(attempt.webhookId) !== attempt.url))
  const records = batch.map((attempt) =>
    moved.has(attempt) ? { ...attempt, next: { status: 'pending', at: new Date() } as const } : attempt,
  )
  const restarted = await writeAttempts(transaction, records)
  return { disabled, sendAgain: new Set([...restarted, ...[...moved].map(({ deliveryId }) => deliveryId)]) }
}
