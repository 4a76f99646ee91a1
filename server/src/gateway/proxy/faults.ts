/** The part of an error that may be logged. An error of the HTTP parser also carries the raw bytes of an answer. */
export interface Fault {
  readonly code: string | undefined
  readonly message: string
}

export function faultOf(error: unknown): Fault {
  if (!(error instanceof Error)) return { code: undefined, message: String(error) }
  return { code: (error as NodeJS.ErrnoException).code, message: error.message }
}

export type Guard = <Args extends readonly unknown[]>(callback: (...args: Args) => void) => (...args: Args) => void

/**
 * Returns a guard. An error thrown in an event callback would end the process, and with it the traffic of every app. A
 * guarded callback calls `onFailure` instead, which ends only its exchange and must not throw.
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
