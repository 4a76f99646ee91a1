import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { CommandError } from './command-error.ts'
import { say } from './wait.ts'

/** Short for a person, and long for a program that has begun. */
const sayAfterMs = 2_000

/**
 * Reads standard input to its end, which may never come, such as in a service whose input is a pipe that nobody writes to: the
 * command says what it waits for.
 *
 * @param what names it, such as `the key`
 */
export async function textOfInput(
  what: string,
  { input = process.stdin as Readable, tell = say, afterMs = sayAfterMs } = {},
): Promise<string> {
  const timer = setTimeout(() => tell(`waiting for ${what} on standard input, until its end`), afterMs)
  try {
    return await text(input)
  } finally {
    clearTimeout(timer)
  }
}

/**
 * Reads a secret from standard input: arguments are in process lists and histories.
 *
 * @param what names it, such as `token`; `example` is a command that gives it
 */
export async function secretOfInput(what: string, example: string): Promise<string> {
  const secret = process.stdin.isTTY ? '' : (await textOfInput(`the ${what}`)).trim()
  if (secret !== '') return secret
  throw new CommandError(`Give the ${what} on standard input: ${example}`)
}
