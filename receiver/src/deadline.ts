import { ReceiverError } from './errors.ts'

/**
 * The time that work has: so many seconds from the moment when it is limited.
 * A class, because one is made for every webhook and an object with a getter of its own costs more than all else here.
 */
export class Deadline {
  readonly #seconds: number
  readonly #what: string
  #controller: AbortController | undefined
  #exceeded: ReceiverError | undefined

  /** @param what is told to have been too slow */
  constructor(seconds: number, what = "The webhook's handler") {
    this.#seconds = seconds
    this.#what = what
  }

  /** Aborts when the time is over. Most work never looks at it, and a signal that is not made costs nothing. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController()
    if (this.#exceeded) this.#controller.abort(this.#exceeded)
    return this.#controller.signal
  }

  /**
   * What the work comes to, if it does so in time.
   * @throws ReceiverError `deadline_exceeded`
   */
  limit<T>(work: PromiseLike<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(this.#exceed()), this.#seconds * 1000)
      work.then(
        (result) => {
          clearTimeout(timer)
          resolve(result)
        },
        (error) => {
          clearTimeout(timer)
          reject(error)
        },
      )
    })
  }

  #exceed(): ReceiverError {
    this.#exceeded = new ReceiverError('deadline_exceeded', `${this.#what} took longer than ${this.#seconds} s.`)
    this.#controller?.abort(this.#exceeded)
    return this.#exceeded
  }
}
