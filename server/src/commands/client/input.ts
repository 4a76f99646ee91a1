import { readFile } from 'node:fs/promises'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { parseDotenv } from '../../contract/dotenv.ts'
import { CommandError } from './command-error.ts'
import { say } from './wait.ts'

/** The wait before the message: short for a person, and long enough for a program that writes to the pipe. */
const sayAfterMs = 2_000

/**
 * Prints after a while what it waits for, because the end may never come, for example in a service with an unused pipe.
 *
 * @param what names the input, such as `the key`
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
 * Arguments appear in process lists and shell histories; standard input does not.
 *
 * @param what names the secret, such as `token`; `example` is a command that prints it
 */
export async function secretOfInput(what: string, example: string): Promise<string> {
  const secret = process.stdin.isTTY ? '' : (await textOfInput(`the ${what}`)).trim()
  if (secret !== '') return secret
  throw new CommandError(`Give the ${what} on standard input: ${example}`)
}

/**
 * Reads variables from `NAME=value` arguments and a dotenv file. Arguments take precedence. Throws a `CommandError`,
 * which never quotes a value.
 */
export async function readVariables(
  given: readonly string[],
  file: string | undefined,
): Promise<Record<string, string>> {
  return { ...(file === undefined ? {} : await readVariablesFile(file)), ...Object.fromEntries(given.map(assignment)) }
}

function assignment(given: string, at: number): [string, string] {
  const equals = given.indexOf('=')
  if (equals < 1) throw new CommandError(`Variable ${at + 1} must have the form NAME=value.`)
  return [given.slice(0, equals), given.slice(equals + 1)]
}

async function readVariablesFile(path: string): Promise<Record<string, string>> {
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw new CommandError(`${path} cannot be read: ${error.code}`)
  })
  const read = parseDotenv(text)
  if (!read.ok) throw new CommandError(`${path}, line ${read.line}: ${read.message}`)
  return read.variables
}
