import type { Database, Transaction } from '../database.ts'

interface Pending<Question, Answer> {
  readonly question: Question
  readonly resolve: (answer: Answer) => void
  readonly reject: (error: unknown) => void
}

const mostPerBatch = 500

/**
 * Questions that arrive while a statement runs share the next one. Only a statement that begins after a question
 * answers it, so an answer is never older than its question.
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

/** Reads an answer. Inside a transaction the caller passes it, so that the read uses its connection. */
export type BatchedRead<Question, Answer> = (question: Question, transaction?: Transaction) => Promise<Answer>

/**
 * Batches questions to the database. A question inside a transaction uses the transaction's connection instead: if the
 * transaction waited for another connection, the holders of all connections might wait for a lock of the transaction.
 */
export function createBatchedRead<Question, Answer>(
  database: Database,
  ask: (on: Database | Transaction, questions: readonly Question[]) => Promise<readonly Answer[]>,
): BatchedRead<Question, Answer> {
  const batched = createBatcher((questions: readonly Question[]) => ask(database, questions))
  return async (question, transaction) =>
    transaction === undefined ? batched(question) : ((await ask(transaction, [question]))[0] as Answer)
}
