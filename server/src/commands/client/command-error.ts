import { InvalidArgumentError } from 'commander'

/** The user can correct this error; only its message is shown. */
export class CommandError extends Error {
  override readonly name = 'CommandError'
}

/** Ends the command with an exit status, without a message. */
export class Ended extends Error {
  override readonly name = 'Ended'
  readonly status: number

  constructor(status: number) {
    super(`the command ended with ${status}`)
    this.status = status
  }
}

/** Returns a parser for the value of an option. Commander reports its error with the name of the option. */
export function wholeNumber(least: number, most: number): (given: string) => number {
  return (given) => {
    const value = Number(given)
    if (/^\d{1,9}$/.test(given) && value >= least && value <= most) return value
    throw new InvalidArgumentError(`It must be a whole number from ${least} to ${most}.`)
  }
}
