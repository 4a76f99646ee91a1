import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { type Client, createClient } from '@fairlead/server/client'
import { pino } from 'pino'
import { inject } from 'vitest'
import { type Accounts, createAccounts } from '../../server/src/accounts/accounts.ts'
import { createKeys, type Keys } from '../../server/src/accounts/keys.ts'
import { type Preset, presets } from '../../server/src/accounts/scopes.ts'
import { createUsers } from '../../server/src/accounts/users.ts'
import { loadConfig } from '../../server/src/platform/config.ts'
import { openDatabase } from '../../server/src/platform/database.ts'
import { type ServerOptions, startServer } from '../../server/src/server.ts'
import { type Browser, browser } from './browser.ts'
import { type TestDatabase, testDatabase } from './database.ts'
import { freePort, portSettings } from './ports.ts'
import { temporaryDirectory } from './temporary.ts'

export interface TestServer extends AsyncDisposable {
  /** Such as `http://127.0.0.1:41234`. */
  readonly url: string
  readonly baseUrl: string
  readonly database: TestDatabase
  readonly dataDirectory: string
  readonly accounts: Accounts
  readonly keys: Keys
  /** A key of the operator's account with all rights. */
  readonly apiKey: string
  /** A client with that key. */
  readonly client: Client
  /** Creates another key, by default of the operator's account. */
  key(options: { accountId?: string; preset?: Preset; projectIds?: string[] }): Promise<string>
  clientFor(apiKey: string): Client
  /** Creates a setup link, by default for the operator's account, and returns its token. */
  setupLink(accountId?: string): Promise<string>
  /** Returns a browser in which a new user has signed in, created by a setup link as real users are. */
  signIn(options?: { accountId?: string }): Promise<SignedInBrowser>
  /** Every log line so far, parsed. */
  readonly log: Record<string, unknown>[]
  /** Stops the server and starts it again at the same address; `meanwhile` runs while no server does. */
  restart(meanwhile?: () => Promise<void>): Promise<void>
}

export interface SignedInBrowser extends Browser {
  readonly email: string
  readonly password: string
  readonly userId: string
}

/** Starts a whole server in this process, with a database and a data directory of its own. */
export async function testServer(
  environment: Readonly<Record<string, string>> = {},
  more: Pick<ServerOptions, 'moreRuntimes'> = {},
): Promise<TestServer> {
  await using cleanup = new AsyncDisposableStack()
  const database = cleanup.use(await testDatabase())
  const directory = cleanup.use(await temporaryDirectory())
  const dataDirectory = join(directory.path, 'data')
  const log: Record<string, unknown>[] = []
  const logger = pino({ level: 'debug', base: null }, { write: (line: string) => void log.push(JSON.parse(line)) })
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
  const start = (port: string) =>
    startServer({
      config: configFor(port),
      logger,
      strictResponses: true,
      ...more,
      onFatal: (error) => {
        throw error
      },
    })
  let server = await start(String(await freePort()))
  cleanup.defer(() => server.stop('all'))

  const handle = openDatabase({ connectionString: database.url, max: 2 }, logger)
  cleanup.defer(() => handle.close())
  const accounts = createAccounts({ database: handle.db })
  const keys = createKeys({ database: handle.db })
  const baseUrl = `${server.url}/v1`
  const clientFor = (apiKey: string) => createClient({ baseUrl, apiKey })
  const key: TestServer['key'] = async ({ accountId, preset = 'full', projectIds }) => {
    const made = await keys.create({
      accountId: accountId ?? (await accounts.ensureOperator()),
      name: 'test',
      scopes: presets[preset],
      projectIds: projectIds ?? null,
    })
    return made.key
  }
  const users = createUsers({ database: handle.db })
  const setupLink = async (accountId?: string) => users.createSetupLink(accountId ?? (await accounts.ensureOperator()))
  const signIn: TestServer['signIn'] = async ({ accountId } = {}) => {
    const opened = browser(server.url)
    const given = { email: `${randomUUID()}@example.com`, password: 'correct horse battery staple' }
    const { user } = await opened.dashboard.setup.complete({ body: { token: await setupLink(accountId), ...given } })
    return { ...opened, ...given, userId: user.id }
  }
  const apiKey = await key({})
  const owned = cleanup.move()
  return {
    url: server.url,
    baseUrl,
    database,
    dataDirectory,
    accounts,
    keys,
    apiKey,
    client: clientFor(apiKey),
    key,
    clientFor,
    setupLink,
    signIn,
    log,
    async restart(meanwhile) {
      await server.stop('all')
      await meanwhile?.()
      server = await start(new URL(server.url).port)
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}
