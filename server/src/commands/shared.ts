import { existsSync } from 'node:fs'
import { userInfo } from 'node:os'
import { InvalidArgumentError, Option } from 'commander'
import type { Administration } from '../administration.ts'
import type { AuditEntry } from '../http/audit.ts'
import { loadConfig } from '../platform/config.ts'
import type { Transaction } from '../platform/database.ts'
import { createLogger } from '../platform/logger.ts'

/** Something that the user of a command can put right; its message is all that is shown. */
export class CommandError extends Error {
  override readonly name = 'CommandError'
}

export interface StateFlags {
  readonly dataDir?: string
}

/** The flag of every command that works on a data directory. */
export function dataDirOption(): Option {
  return new Option('--data-dir <folder>', "the server's data directory (FAIRLEAD_DATA_DIR; ./.fairlead)")
}

/** Runs a command's work on the data directory that its flags or the environment name. */
export async function withState<T>(
  flags: StateFlags,
  work: (administration: Administration) => Promise<T>,
): Promise<T> {
  const config = loadConfig({ dataDir: flags.dataDir })
  if (!existsSync(config.dataDirectory)) {
    // Said, because it may be the wrong place: a server elsewhere will not know what is made here.
    process.stderr.write(`fairlead: there was no data in ${config.dataDirectory} yet; a new data directory is made\n`)
  }
  // What needs no database should not wait for what is needed to open one.
  const { administer } = await import('../administration.ts')
  return administer({ config, logger: createLogger({ level: 'error', destination: 'stderr' }) }, work)
}

type Recorded = Pick<AuditEntry, 'accountId' | 'operation' | 'resourceId'>

/** Changes something in one transaction with its entry in the audit log, under the name of the system's user. */
export function change<T>(
  { database, auditLog }: Administration,
  work: (transaction: Transaction, record: (what: Recorded) => Promise<void>) => Promise<T>,
): Promise<T> {
  return database.transaction().execute((transaction) =>
    work(transaction, (what) =>
      auditLog.write(transaction, {
        ...what,
        actor: { type: 'command', id: null, name: userName() },
        address: null,
        requestId: null,
        projectId: null,
      }),
    ),
  )
}

/** A container's user need not have a name. */
function userName(): string | null {
  try {
    return userInfo().username
  } catch {
    return null
  }
}

/** Checks the `--name` of something. */
export function nameOf(name: string): string {
  const trimmed = name.trim()
  if (trimmed === '' || trimmed.length > 100) throw new CommandError('--name must be 1 to 100 characters.')
  return trimmed
}

/** Writes rows as aligned columns, the first row being the heading. */
export function printTable(rows: readonly (readonly string[])[]): void {
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0))) ?? []
  for (const row of rows) {
    process.stdout.write(
      `${row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd()}\n`,
    )
  }
}

/** Reads an option's value; commander says what is wrong with it. */
export function wholeNumber(least: number, most: number): (given: string) => number {
  return (given) => {
    const value = Number(given)
    if (/^\d{1,9}$/.test(given) && value >= least && value <= most) return value
    throw new InvalidArgumentError(`It must be a whole number from ${least} to ${most}.`)
  }
}
