import { text } from 'node:stream/consumers'
import { CommandError } from '../command-error.ts'

/**
 * Reads a secret from standard input: arguments are in process lists and histories.
 *
 * @param what names it, such as `token`; `example` is a command that gives it
 */
export async function secretOfInput(what: string, example: string): Promise<string> {
  const secret = process.stdin.isTTY ? '' : (await text(process.stdin)).trim()
  if (secret !== '') return secret
  throw new CommandError(`Give the ${what} on standard input: ${example}`)
}
