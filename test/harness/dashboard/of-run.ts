import { randomUUID } from 'node:crypto'
import { type Client, createClient } from '@fairlead/server/client'
import { pino } from 'pino'
import { inject } from 'vitest'
import { createAccountStore } from '../../../server/src/features/accounts/accounts.ts'
import { createUsers } from '../../../server/src/features/accounts/users.ts'
import { type Database, openDatabase } from '../../../server/src/platform/database.ts'
import { browser as fetchBrowser, type Browser as SignedInBrowser } from '../browser.ts'
import { connectChromium } from '../chromium.ts'
import { type Dashboard, openDashboard, type User, type Windows, windows } from '../dashboard.ts'
import { openTestDatabase, type TestDatabase, testDatabase } from '../database.ts'
import type { SharedServer, TestServer } from '../server.ts'

/** The parts of a dashboard test: a server, a user, and browser windows. */
export interface SharedDashboard extends Windows, AsyncDisposable {
  readonly server: Pick<TestServer, 'url' | 'clientFor'>
  readonly dataDirectory: string
  readonly database: TestDatabase
  readonly accountId: string
  readonly user: User
  readonly api: SignedInBrowser
  readonly client: Client
  /** Creates a setup link for another user of the account. */
  setupLink(): Promise<string>
}

/**
 * Returns a new account with a user on the shared server, and the Chromium of the run. Apps run in the server's memory:
 * a deployment costs no process, and has no terminal.
 */
export async function sharedDashboard(): Promise<SharedDashboard> {
  await using cleanup = new AsyncDisposableStack()
  const { url, databaseUrl, dataDirectory } = await part<SharedServer>('server')
  const database = cleanup.use(await openTestDatabase(databaseUrl))
  const chromium = await chromiumOfRun()
  cleanup.defer(() => chromium.close())
  const { accountId, token } = await newAccount(databaseUrl)
  const setupLink = async () =>
    `${url}/setup#${await onDatabase(databaseUrl, (db) => createUsers({ database: db }).createSetupLink(accountId))}`
  const user = { email: `${randomUUID()}@example.com`, password: 'correct horse battery staple' }
  const api = fetchBrowser(url)
  await api.dashboard.setup.complete({ body: { token, ...user } })
  const owned = cleanup.move()
  return {
    server: { url, clientFor: (apiKey) => createClient({ baseUrl: `${url}/v1`, apiKey }) },
    dataDirectory,
    database,
    accountId,
    user,
    api,
    client: api.client,
    setupLink,
    ...windows(chromium, url, user),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

/**
 * Creates an account and the setup link of its first user. Loading the modules of a whole server would take longer than
 * a test.
 */
function newAccount(connectionString: string): Promise<{ accountId: string; token: string }> {
  return onDatabase(connectionString, async (database) => {
    const { id } = await createAccountStore({ database }).create({ name: 'test', plan: 'enterprise' })
    return { accountId: id, token: await createUsers({ database }).createSetupLink(id) }
  })
}

async function onDatabase<Result>(connectionString: string, act: (db: Database) => Promise<Result>): Promise<Result> {
  const handle = openDatabase({ connectionString, max: 1 }, pino({ level: 'silent' }))
  try {
    return await act(handle.db)
  } finally {
    await handle.close()
  }
}

/**
 * Starts a server for a test that needs its settings, its log, its end, or real apps. Its database is in the cluster of
 * the run, because making a cluster is slow.
 */
export async function ownDashboard(
  environment: Readonly<Record<string, string>> = {},
): Promise<Dashboard & { readonly database: TestDatabase }> {
  await using cleanup = new AsyncDisposableStack()
  const database = cleanup.use(await testDatabase())
  const dashboard = cleanup.use(await openDashboard({ DATABASE_URL: database.url, ...environment }, chromiumOfRun))
  const owned = cleanup.move()
  return { ...dashboard, database, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}

export async function chromiumOfRun() {
  return connectChromium((await part<{ address: string }>('chromium')).address)
}

async function part<Part>(name: 'server' | 'chromium'): Promise<Part> {
  const response = await fetch(`${inject('dashboardParts')}/${name}`)
  if (!response.ok) throw new Error(`no ${name} started: ${await response.text()}`)
  return (await response.json()) as Part
}
