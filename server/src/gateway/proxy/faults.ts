/** The part of an error that may be logged: an error of the HTTP parser also carries the raw bytes of an answer. */
export interface Fault {
  readonly code: string | undefined
  readonly message: string
}

export function faultOf(error: unknown): Fault {
  if (!(error instanceof Error)) return { code: undefined, message: String(error) }
  return { code: (error as NodeJS.ErrnoException).code, message: error.message }
}

/** Turns a callback into one that cannot throw. */
export type Guard = <Args extends readonly unknown[]>(callback: (...args: Args) => void) => (...args: Args) => void

/**
 * Returns a guard. A throw in an event callback would end the process, and every app behind it; a guarded one calls
 * `onFailure`, which breaks off the callback's exchange and must not throw itself.
 */
export function createGuard(onFailure: (error: unknown) => void): Guard {
  return (callback) =>
    (...args) => {
      try {
        callback(...args)
      } catch (error) {
        onFailure(error)
      }
    }
}
