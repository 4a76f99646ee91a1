interface Waiting<Question, Answer> {
  readonly question: Question
  readonly resolve: (answer: Answer) => void
  readonly reject: (error: unknown) => void
}

/** One statement carries no more than this. */
const mostTogether = 500

/**
 * Joins questions to the database: those that come while one statement is under way share the next one. A question is
 * only ever answered by a statement that began after it was asked, so no answer is older than its question.
 * @param ask answers a batch in its order; when it rejects, all of the batch are rejected.
 */
export function createBatcher<Question, Answer>(
  ask: (questions: readonly Question[]) => Promise<readonly Answer[]>,
): (question: Question) => Promise<Answer> {
  let waiting: Waiting<Question, Answer>[] = []
  let busy = false

  const work = async (): Promise<void> => {
    const batch = waiting.slice(0, mostTogether)
    waiting = waiting.slice(mostTogether)
    try {
      const answers = await ask(batch.map(({ question }) => question))
      for (const [at, { resolve }] of batch.entries()) resolve(answers[at] as Answer)
    } catch (error) {
      for (const { reject } of batch) reject(error)
    }
    if (waiting.length > 0) begin()
    else busy = false
  }

  // After all that this turn of the event loop brings, so that what came together is asked together.
  const begin = (): void => void setImmediate(() => void work())

  return (question) =>
    new Promise((resolve, reject) => {
      waiting.push({ question, resolve, reject })
      if (busy) return
      busy = true
      begin()
    })
}
