import { existsSync } from 'node:fs'
import { userInfo } from 'node:os'
import { Option } from 'commander'
import type { Administration } from '../administration.ts'
import type { AuditEntry } from '../http/call.ts'
import { type Config, loadConfig } from '../platform/config.ts'
import { dataDirectoryAt, foreignOwner } from '../platform/data-directory.ts'
import type { Transaction } from '../platform/database.ts'
import { createLogger } from '../platform/logger.ts'
import { CommandError } from './client/command-error.ts'
import { telling } from './client/wait.ts'
import { chosenDirectory } from './data-directory.ts'

export { CommandError, wholeNumber } from './client/command-error.ts'

export interface StateFlags {
  readonly dataDir?: string
}

export function dataDirOption(): Option {
  return new Option('--data-dir <folder>', "the server's data directory (FAIRLEAD_DATA_DIR; ./.fairlead)")
}

/**
 * Runs `work` on the data directory of the flags or the environment. Throws a `CommandError` without an earlier server,
 * unless `mayCreate`: a server with another directory would not see the change.
 */
export async function withState<T>(
  flags: StateFlags,
  work: (administration: Administration, config: Config) => Promise<T>,
  { mayCreate = false } = {},
): Promise<T> {
  // A new data directory is not in use yet, so no search is needed.
  const config = loadConfig({ dataDir: mayCreate ? flags.dataDir : await chosenDirectory(flags.dataDir) })
  if (!mayCreate) assertStarted(config)
  else if (!existsSync(config.dataDirectory)) {
    process.stderr.write(`fairlead: there is no data in ${config.dataDirectory} yet; creating a new data directory\n`)
  }
  const warning = await foreignOwner(config.dataDirectory)
  if (warning !== null) process.stderr.write(`fairlead: ${warning}\n`)
  // Commands without a database should not load these modules.
  const { administer } = await import('../administration.ts')
  const logger = createLogger({ level: 'error', destination: 'stderr' })
  return telling('at work on the data directory', () =>
    administer({ config, logger }, (administration) => work(administration, config)),
  )
}

function assertStarted({ dataDirectory, databaseUrl }: Config): void {
  if (existsSync(databaseUrl === undefined ? dataDirectoryAt(dataDirectory).cluster : dataDirectory)) return
  throw new CommandError(
    `No server has been started with the data directory ${dataDirectory}. Start it first (fairlead serve), or name the ` +
      "server's own: --data-dir or FAIRLEAD_DATA_DIR. For a server that is started there later, fairlead keys create has --new.",
  )
}

type Recorded = Pick<AuditEntry, 'accountId' | 'operation' | 'resourceId'>

/** Runs a change and writes its audit entry in one transaction. The actor is the user of the operating system. */
export function change<T>(
  { database, auditLog }: Administration,
  work: (transaction: Transaction, record: (entry: Recorded) => Promise<void>) => Promise<T>,
): Promise<T> {
  return database.transaction().execute((transaction) =>
    work(transaction, (entry) =>
      auditLog.write(transaction, {
        ...entry,
        actor: { type: 'command', id: null, name: userName() },
        address: null,
        requestId: null,
        projectId: null,
      }),
    ),
  )
}

/** Returns the name of the OS user; `null` when the user has no name, as in some containers. */
function userName(): string | null {
  try {
    return userInfo().username
  } catch {
    return null
  }
}

export function nameOf(name: string): string {
  const trimmed = name.trim()
  if (trimmed === '' || trimmed.length > 100) throw new CommandError('--name must be 1 to 100 characters.')
  return trimmed
}

export function printTable(rows: readonly (readonly string[])[]): void {
  const widthOf = (column: number) => rows.reduce((most, row) => Math.max(most, row[column]?.length ?? 0), 0)
  const widths = rows[0]?.map((_, column) => widthOf(column)) ?? []
  for (const row of rows) {
    process.stdout.write(
      `${row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd()}\n`,
    )
  }
}
