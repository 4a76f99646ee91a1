import './one-connection.ts'
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { type Client, createClient } from '@fairlead/server/client'
import { pino } from 'pino'
import { expect, inject, vi } from 'vitest'
import { type AccountStore, createAccountStore } from '../../server/src/features/accounts/accounts.ts'
import { createKeys, type Keys } from '../../server/src/features/accounts/keys.ts'
import { type Preset, presets } from '../../server/src/features/accounts/scopes.ts'
import { createUsers } from '../../server/src/features/accounts/users.ts'
import { loadConfig } from '../../server/src/platform/config.ts'
import { openDatabase } from '../../server/src/platform/database.ts'
import type { Runtime } from '../../server/src/runtimes/runtime.ts'
import { type ServerOptions, startServer } from '../../server/src/server.ts'
import { type Browser, browser } from './browser.ts'
import { countLogLine } from './counts.ts'
import { openTestDatabase, type TestDatabase, testDatabase } from './database.ts'
import { freePort, portSettings } from './ports.ts'
import { memoryOptions, memoryRuntime } from './runtimes/memory.ts'
import { temporaryDirectory } from './temporary.ts'

/** A server, with its operations for the operator. All of them use one account unless an option names another. */
export interface TestServer extends AsyncDisposable {
  /** Such as `http://127.0.0.1:41234`. */
  readonly url: string
  readonly baseUrl: string
  readonly database: TestDatabase
  readonly dataDirectory: string
  readonly accounts: AccountStore
  readonly keys: Keys
  /** The account of the test. */
  readonly accountId: string
  readonly apiKey: string
  /** A client with that key. */
  readonly client: Client
  /** Creates another key, by default of the account. */
  key(options: { accountId?: string; preset?: Preset; projectIds?: string[] }): Promise<string>
  clientFor(apiKey: string): Client
  /** Creates a setup link, by default for the account, and returns its token. */
  setupLink(accountId?: string): Promise<string>
  /** Returns a browser in which a new user has signed in. A setup link creates the user, as for real users. */
  signIn(options?: { accountId?: string }): Promise<SignedInBrowser>
}

/** A server that the test does not share. */
export interface OwnServer extends TestServer {
  readonly log: Record<string, unknown>[]
  /** Stops the server, runs `whileStopped`, and starts the server again at the same address. */
  restart(whileStopped?: () => Promise<void>): Promise<void>
}

export interface SignedInBrowser extends Browser {
  readonly email: string
  readonly password: string
  readonly userId: string
}

/** The server process that all API tests of a run share, see `shared-server.ts`. */
export interface SharedServer {
  readonly url: string
  readonly databaseUrl: string
  readonly dataDirectory: string
}

declare module 'vitest' {
  interface ProvidedContext {
    /** `null` at the levels where each test starts its servers. */
    sharedServer: SharedServer | null
  }
}

/**
 * Returns a new account on the shared server of API tests; apps run in its memory. At other levels it starts a server.
 * A test that needs settings, the log, a restart, the operator's account or a server without other accounts calls
 * `ownServer`.
 */
export async function testServer(): Promise<TestServer> {
  const shared = inject('sharedServer')
  if (shared === null) return ownServer()
  await using cleanup = new AsyncDisposableStack()
  const database = cleanup.use(await openTestDatabase(shared.databaseUrl))
  const given = await account({ ...shared, database }, async (accounts) => {
    const { id } = await accounts.create({ name: 'test', plan: 'enterprise' })
    return id
  })
  cleanup.use(given)
  cleanup.defer(() => deleteApps(given))
  const owned = cleanup.move()
  return { ...given, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}

/**
 * Deletes the apps that an account has left on the shared server, and resolves when their builds and processes have
 * ended. A build that hangs would keep its slot for the rest of the run.
 */
async function deleteApps({ accountId, key, clientFor, database }: TestServer): Promise<void> {
  const left = () =>
    database.query<{ id: string; project_id: string }>(
      'select distinct app_id as id, project_id from deployments where account_id = $1',
      [accountId],
    )
  const apps = await left()
  if (apps.length === 0) return
  // The test may have revoked its key.
  const client = clientFor(await key({}))
  // The API hides an app while it deletes the app.
  await Promise.allSettled(apps.map(({ id, project_id }) => client.apps.delete({ params: { project_id, id } })))
  await vi.waitFor(async () => expect(await left()).toEqual([]), { timeout: 30_000, interval: 50 })
}

/**
 * Starts a whole server in this process, with an empty database and data directory, for the operator's account. In API
 * tests apps run in its memory unless `more` has a runtime for them.
 */
export async function ownServer(
  environment: Readonly<Record<string, string>> = {},
  more: Pick<ServerOptions, 'moreRuntimes' | 'preferredRuntime'> = {},
): Promise<OwnServer> {
  await using cleanup = new AsyncDisposableStack()
  const database = cleanup.use(await testDatabase())
  const directory = cleanup.use(await temporaryDirectory())
  const dataDirectory = join(directory.path, 'data')
  const log: Record<string, unknown>[] = []
  const isInMemory = inject('sharedServer') !== null
  const write = (text: string) => {
    const line: Record<string, unknown> = JSON.parse(text)
    log.push(line)
    countLogLine(line)
  }
  const logger = pino({ level: 'debug', base: null }, { write })
  const configFor = (port: string) =>
    loadConfig(
      {},
      {
        PATH: process.env['PATH'],
        DATABASE_URL: database.url,
        FAIRLEAD_PORT: port,
        FAIRLEAD_DATA_DIR: dataDirectory,
        FAIRLEAD_BUILD_ENV: JSON.stringify(inject('buildEnvironment')),
        FAIRLEAD_STABLE_TIME: '0.1',
        ...portSettings,
        ...environment,
      },
    )
  const runtime = isInMemory
    ? { ...memoryOptions, preferredRuntime: await runtimeInMemory(cleanup, dataDirectory) }
    : {}
  const start = (port: string) =>
    startServer({
      config: configFor(port),
      logger,
      strictResponses: true,
      ...runtime,
      ...more,
      onFatal: (error) => {
        throw error
      },
    })
  let server = await start(String(await freePort()))
  cleanup.defer(() => server.stop('all'))

  const given = await account({ url: server.url, database, dataDirectory }, (accounts) => accounts.ensureOperator())
  cleanup.use(given)
  const owned = cleanup.move()
  return {
    ...given,
    log,
    async restart(whileStopped) {
      await server.stop('all')
      await whileStopped?.()
      server = await start(new URL(server.url).port)
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

async function runtimeInMemory(cleanup: AsyncDisposableStack, dataDirectory: string): Promise<Runtime> {
  return cleanup.use(await memoryRuntime(dataDirectory)).runtime
}

/** Returns the operator's operations on a server, for the account that `accountOf` makes or finds. */
export async function account(
  { url, database, dataDirectory }: Pick<TestServer, 'url' | 'database' | 'dataDirectory'>,
  accountOf: (accounts: AccountStore) => Promise<string>,
): Promise<TestServer> {
  const handle = openDatabase({ connectionString: database.url, max: 2 }, pino({ level: 'silent' }))
  const accounts = createAccountStore({ database: handle.db })
  const keys = createKeys({ database: handle.db })
  const users = createUsers({ database: handle.db })
  const own = await accountOf(accounts)
  const baseUrl = `${url}/v1`
  const clientFor = (apiKey: string) => createClient({ baseUrl, apiKey })
  const key: TestServer['key'] = async ({ accountId = own, preset = 'full', projectIds = null }) => {
    const made = await keys.create({ accountId, name: 'test', scopes: presets[preset], projectIds })
    return made.key
  }
  const setupLink = (accountId = own) => users.createSetupLink(accountId)
  const signIn: TestServer['signIn'] = async ({ accountId } = {}) => {
    const opened = browser(url)
    const given = { email: `${randomUUID()}@example.com`, password: 'correct horse battery staple' }
    const { user } = await opened.dashboard.setup.complete({ body: { token: await setupLink(accountId), ...given } })
    return { ...opened, ...given, userId: user.id }
  }
  const apiKey = await key({})
  return {
    url,
    baseUrl,
    database,
    dataDirectory,
    accounts,
    keys,
    accountId: own,
    apiKey,
    client: clientFor(apiKey),
    key,
    clientFor,
    setupLink,
    signIn,
    [Symbol.asyncDispose]: () => handle.close(),
  }
}
