import { join } from 'node:path'
import { pino } from 'pino'
import { createAccountStore } from '../../server/src/features/accounts/accounts.ts'
import { createKeys } from '../../server/src/features/accounts/keys.ts'
import { presets } from '../../server/src/features/accounts/scopes.ts'
import { openDatabase } from '../../server/src/platform/database.ts'
import { testDatabase } from './database.ts'
import { type CommandResult, fairlead, type ServerProcess, serverProcess } from './process.ts'
import { temporaryDirectory } from './temporary.ts'

/** Server processes that share a data directory and a database. */
export interface ServerProcesses extends AsyncDisposable {
  /** The parent folder of the data directory. */
  readonly directory: string
  readonly data: string
  /** The settings of its servers and commands. */
  readonly environment: Readonly<Record<string, string>>
  /** Starts `fairlead serve`, with further settings. */
  start(settings?: Readonly<Record<string, string>>): Promise<ServerProcess>
  command(...args: readonly string[]): Promise<CommandResult>
  /** Creates a key of the operator with all rights. */
  key(): Promise<string>
}

/**
 * Makes an empty data directory, and a database in the cluster of the run. Without this database, the first server
 * would make a cluster, which takes seconds of CPU time.
 */
export async function serverProcesses(settings: Readonly<Record<string, string>> = {}): Promise<ServerProcesses> {
  await using cleanup = new AsyncDisposableStack()
  const database = cleanup.use(await testDatabase())
  const { path } = cleanup.use(await temporaryDirectory())
  const data = join(path, 'data')
  const environment = { DATABASE_URL: database.url, ...settings }
  const owned = cleanup.move()
  return {
    directory: path,
    data,
    environment,
    start: (more = {}) => serverProcess(data, { ...environment, ...more }),
    command: (...args) => fairlead([...args, '--data-dir', data], environment),
    key: () => operatorKey(database.url),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

/** Creates a key of the operator with all rights in a migrated database. */
export async function operatorKey(connectionString: string): Promise<string> {
  const { db, close } = openDatabase({ connectionString, max: 1 }, pino({ level: 'silent' }))
  try {
    const accountId = await createAccountStore({ database: db }).ensureOperator()
    const made = await createKeys({ database: db }).create({
      accountId,
      name: 'test',
      scopes: presets.full,
      projectIds: null,
    })
    return made.key
  } finally {
    await close()
  }
}
