import type { Client } from '@fairlead/server/client'
import { inject } from 'vitest'
import type { Browser as SignedInBrowser } from '../browser.ts'
import { connectChromium } from '../chromium.ts'
import { type Dashboard, openDashboard, type User, type Windows, windows } from '../dashboard.ts'
import { type TestDatabase, testDatabase } from '../database.ts'
import { type SharedServer, type TestServer, testServer } from '../server.ts'

/** What a test of the dashboard needs: a server, a user, and windows of a browser. */
export interface SharedDashboard extends Windows, AsyncDisposable {
  readonly server: Pick<TestServer, 'url' | 'clientFor'>
  readonly dataDirectory: string
  readonly database: TestDatabase
  readonly accountId: string
  readonly user: User
  /** The user's browser. */
  readonly api: SignedInBrowser
  readonly client: Client
}

/**
 * Returns a new account with a user on the server that all dashboard tests of a run share, and the Chromium of the run. The apps
 * of that server run in its memory: a deployment costs no process, and has no terminal.
 */
export async function sharedDashboard(): Promise<SharedDashboard> {
  await using cleanup = new AsyncDisposableStack()
  const shared = await part<SharedServer>('server')
  const server = cleanup.use(await testServer(shared))
  const chromium = await chromiumOfRun()
  cleanup.defer(() => chromium.close())
  const { email, password, ...api } = await server.signIn()
  const user = { email, password }
  const owned = cleanup.move()
  return {
    server,
    dataDirectory: shared.dataDirectory,
    database: server.database,
    accountId: server.accountId,
    user,
    api,
    client: api.client,
    ...windows(chromium, server.url, user),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

/**
 * Starts a server for a test that needs its settings, its log, its end, or real apps. Its database is in the cluster of the run,
 * which saves making a cluster.
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

/** Connects to the Chromium of the run. */
export async function chromiumOfRun() {
  return connectChromium((await part<{ address: string }>('chromium')).address)
}

async function part<Part>(name: 'server' | 'chromium'): Promise<Part> {
  const response = await fetch(`${inject('dashboardParts')}/${name}`)
  if (!response.ok) throw new Error(`no ${name} started: ${await response.text()}`)
  return (await response.json()) as Part
}
