import { ReceiverError } from './errors.ts'

/**
 * A time limit that starts when `limit` is called.
 * A class, because one is created for every webhook, and an object literal with a getter would be the largest cost here.
 */
export class Deadline {
  readonly #seconds: number
  readonly #subject: string
  #controller: AbortController | undefined
  #exceeded: ReceiverError | undefined

  /** @param subject the slow operation, for the error message */
  constructor(seconds: number, subject = "The webhook's handler") {
    this.#seconds = seconds
    this.#subject = subject
  }

  /** Aborts when the limit is exceeded. Created on first use, because most handlers never read it. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController()
    if (this.#exceeded) this.#controller.abort(this.#exceeded)
    return this.#controller.signal
  }

  /**
   * Settles like `promise`, or rejects when `promise` takes too long.
   * @throws ReceiverError `deadline_exceeded`
   */
  limit<T>(promise: PromiseLike<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(this.#exceed()), this.#seconds * 1000)
      promise.then(
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
    this.#exceeded = new ReceiverError('deadline_exceeded', `${this.#subject} took longer than ${this.#seconds} s.`)
    this.#controller?.abort(this.#exceeded)
    return this.#exceeded
  }
}
