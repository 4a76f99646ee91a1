/** What may be logged of an error. No more: an error of the HTTP parser carries the raw bytes of an answer. */
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
 * A throw in an event callback would end the process, and every app behind it. Here it ends in `onFailure`, which breaks off
 * what the callback belonged to and must not throw itself.
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
