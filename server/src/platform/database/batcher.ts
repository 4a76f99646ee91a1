import type { Database, Transaction } from '../database.ts'

interface Pending<Question, Answer> {
  readonly question: Question
  readonly resolve: (answer: Answer) => void
  readonly reject: (error: unknown) => void
}

/** The most questions in one statement. */
const mostPerBatch = 500

/**
 * Batches questions to the database: those that arrive while a statement is running share the next statement. A question
 * is answered only by a statement that began after it was asked, so an answer is never older than its question.
 *
 * @param ask answers a batch in its order; when it rejects, every question of the batch is rejected
 */
export function createBatcher<Question, Answer>(
  ask: (questions: readonly Question[]) => Promise<readonly Answer[]>,
): (question: Question) => Promise<Answer> {
  let pending: Pending<Question, Answer>[] = []
  let busy = false

  const runBatch = async (): Promise<void> => {
    const batch = pending.slice(0, mostPerBatch)
    pending = pending.slice(mostPerBatch)
    try {
      const answers = await ask(batch.map(({ question }) => question))
      for (const [at, { resolve }] of batch.entries()) resolve(answers[at] as Answer)
    } catch (error) {
      for (const { reject } of batch) reject(error)
    }
    if (pending.length > 0) schedule()
    else busy = false
  }

  // Runs after this turn of the event loop, so that all questions of the turn share a batch.
  const schedule = (): void => void setImmediate(() => void runBatch())

  return (question) =>
    new Promise((resolve, reject) => {
      pending.push({ question, resolve, reject })
      if (busy) return
      busy = true
      schedule()
    })
}

/** Reads something. Within a transaction the caller gives it, so that its connection is used. */
export type BatchedRead<Question, Answer> = (question: Question, transaction?: Transaction) => Promise<Answer>

/**
 * Batches questions that are read from the database. One of a transaction is read on that connection instead: a transaction that waits
 * for another connection may hold a lock that those wait for which have all connections.
 */
export function createBatchedRead<Question, Answer>(
  database: Database,
  ask: (on: Database | Transaction, questions: readonly Question[]) => Promise<readonly Answer[]>,
): BatchedRead<Question, Answer> {
  const batched = createBatcher((questions: readonly Question[]) => ask(database, questions))
  return async (question, transaction) =>
    transaction === undefined ? batched(question) : ((await ask(transaction, [question]))[0] as Answer)
}
