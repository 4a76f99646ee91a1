import { ApiError } from '../../../contract/errors.ts'

/** Opens the events of one log; throws an `ApiError` when it cannot be followed. `ended` aborts when nothing more is read. */
export type OpenLog = (ended: AbortSignal) => Promise<AsyncGenerator<string, void>>

interface Step {
  readonly index: number
  /** An event for the stream; `undefined` at the end of the log. */
  readonly event: string | undefined
}

/**
 * Yields the events of several logs as they come. The data of each names its log by `index`, and has `events`, a text of
 * server-sent events, or an `error`. Ends when all logs have ended.
 */
export async function* mergeLogs(logs: readonly OpenLog[]): AsyncGenerator<string, void> {
  const ended = new AbortController()
  const readers = logs.map((open, index) => readerOf(open, index, ended.signal))
  const steps = new Map<number, Promise<Step>>()
  const take = (index: number, step: Promise<Step>) => {
    // Its error is thrown when its turn comes.
    step.catch(() => undefined)
    steps.set(index, step)
  }
  for (const [index, read] of readers.entries()) take(index, read())
  try {
    while (steps.size > 0) {
      const { index, event } = await Promise.race(steps.values())
      const read = readers[index]
      // It is added again at the end, so that a log that has much to send does not keep the others waiting.
      steps.delete(index)
      if (event === undefined || read === undefined) continue
      take(index, read())
      yield event
    }
  } finally {
    ended.abort()
  }
}

/** Returns a function that reads the next event of a log. */
function readerOf(open: OpenLog, index: number, streamEnded: AbortSignal): () => Promise<Step> {
  const ended = new AbortController()
  const opened = open(AbortSignal.any([streamEnded, ended.signal]))
  const over: Step = { index, event: undefined }
  let failed = false
  return async () => {
    if (failed) return over
    try {
      const next = await (await opened).next()
      if (next.done !== true) return { index, event: answerOf({ index, events: next.value }) }
      ended.abort()
      return over
    } catch (error) {
      if (!(error instanceof ApiError)) throw error
      failed = true
      return { index, event: answerOf({ index, ...error.toBody() }) }
    }
  }
}

const answerOf = (data: unknown): string => `data: ${JSON.stringify(data)}\n\n`
