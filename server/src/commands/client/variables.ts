import { readFile } from 'node:fs/promises'
import { parseDotenv } from '../../contract/dotenv.ts'
import { CommandError } from './command-error.ts'

/**
 * Reads variables given as `NAME=value` and as a dotenv file; those of the arguments count. Throws a `CommandError`, which
 * never quotes a value.
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
