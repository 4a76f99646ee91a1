/**
 * A call that the engine refused, or could not be asked for. The message is for the server's log: the engine names paths of
 * this machine in it, which no tenant may read.
 */
export class EngineError extends Error {
  override readonly name = 'EngineError'
  /** The status of the engine's answer; null when there was none. */
  readonly status: number | null
  /** The engine's own message, or the code of the failed connection such as `ECONNREFUSED`. */
  readonly detail: string

  constructor(call: string, status: number | null, detail: string, options?: ErrorOptions) {
    const what = status === null ? 'cannot be reached' : `answered ${status}`
    super(`the Docker engine ${what} (${call}): ${detail}`, options)
    this.status = status
    this.detail = detail
  }
}

/** True when the engine says that there is no such thing. */
export const isMissing = (error: unknown): boolean => error instanceof EngineError && error.status === 404

/** The status of an answer of the engine that is longer than the caller takes. */
export const tooLong = 413
/** The detail of an error of an engine that takes connections and says nothing. */
export const noAnswer = 'no answer in time'

/** True when the engine says nothing, as one that hangs: each further call would wait as long. */
export const isSilent = (error: unknown): boolean => isAway(error) && (error as EngineError).detail === noAnswer

/** True when the engine gave no answer: it is stopped, or starts again. */
export const isAway = (error: unknown): boolean => error instanceof EngineError && error.status === null

/** Returns `otherwise` in place of a thing that the engine does not have. */
export async function unlessMissing<T, U>(call: Promise<T>, otherwise: U): Promise<T | U> {
  try {
    return await call
  } catch (error) {
    if (isMissing(error)) return otherwise
    throw error
  }
}
