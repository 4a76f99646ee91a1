/**
 * The engine refused a call, or was not reachable. The message is for the server's log: it has paths of this machine,
 * which no tenant may read.
 */
export class EngineError extends Error {
  override readonly name = 'EngineError'
  readonly status: number | null
  /** The engine's message, or the code of the failed connection such as `ECONNREFUSED`. */
  readonly detail: string

  constructor(call: string, status: number | null, detail: string, options?: ErrorOptions) {
    const what = status === null ? 'cannot be reached' : `answered ${status}`
    super(`the Docker engine ${what} (${call}): ${detail}`, options)
    this.status = status
    this.detail = detail
  }
}

export const isMissing = (error: unknown): boolean => error instanceof EngineError && error.status === 404

/** The status for an answer that is longer than the caller accepts. */
export const tooLong = 413
/** The detail for an engine that accepts connections and does not answer. */
export const noAnswer = 'no answer in time'

/** True when the engine does not answer: each further call would wait just as long. */
export const isSilent = (error: unknown): boolean => isAway(error) && (error as EngineError).detail === noAnswer

/** True when the engine gave no answer: it is stopped or restarting. */
export const isAway = (error: unknown): boolean => error instanceof EngineError && error.status === null

export async function unlessMissing<T, U>(call: Promise<T>, otherwise: U): Promise<T | U> {
  try {
    return await call
  } catch (error) {
    if (isMissing(error)) return otherwise
    throw error
  }
}
