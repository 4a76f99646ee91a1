import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { pino } from 'pino'
import { createAccountStore } from '../../../server/src/features/accounts/accounts.ts'
import { appAt, hostnamesOf } from '../../../server/src/features/apps/addresses.ts'
import { createCertificates } from '../../../server/src/features/certificates/index.ts'
import { registeredDomain } from '../../../server/src/features/certificates/renewal.ts'
import { servedDomains } from '../../../server/src/features/domains/rows.ts'
import { domainsChannel } from '../../../server/src/features/domains/tables.ts'
import { createTenancy } from '../../../server/src/features/projects/tenancy.ts'
import { announce } from '../../../server/src/features/webhooks/outbox.ts'
import type { EdgeConfig } from '../../../server/src/platform/config/edge.ts'
import { type DatabaseHandle, openDatabase, type Transaction } from '../../../server/src/platform/database.ts'
import { newId } from '../../../server/src/platform/ids.ts'
import { createSecretBox, type SecretBox } from '../../../server/src/platform/secrets.ts'
import { createShutdownStack } from '../../../server/src/platform/shutdown.ts'
import { type TestDatabase, testDatabase } from '../database.ts'

/*
 * Runs the leader's work on certificates on a real database without the rest of a server. The edge is a map and the
 * gateway is a port. A test adds host names as rows.
 */

export const domain = 'example.test'
export const dashboardHost = `fairlead.${domain}`

export interface Row {
  readonly id: string
  readonly names: string[]
  readonly domain_id: string | null
  readonly app_id: string | null
  readonly account_id: string
  readonly chain: string | null
  readonly private_key: Buffer | null
  readonly serial: string | null
  readonly issuer: string | null
  readonly not_before: Date | null
  readonly expires_at: Date | null
  readonly attempted_at: Date | null
  readonly next_attempt_at: Date | null
  readonly attempts: number
  readonly failure: { readonly code: string; readonly message: string } | null
  readonly is_under_way: boolean
  readonly order_url: string | null
  readonly alerted_at: Date | null
  readonly revoked_at: Date | null
}

export interface World extends AsyncDisposable {
  readonly database: TestDatabase
  /** The port that answers challenges. */
  readonly httpPort: number
  readonly operatorId: string
  readonly secrets: SecretBox
  /** The PEM that the gateway shows for each name. */
  readonly shown: ReadonlyMap<string, string>
  /** The answers to challenges. */
  readonly answers: ReadonlyMap<string, string>
  /** Every line of the log. */
  readonly log: Record<string, unknown>[]
  tenant(): Promise<{ readonly accountId: string; readonly projectId: string }>
  /** Adds an app with a host name below the domain, by default for the operator. */
  app(owner?: { readonly projectId: string }): Promise<{ readonly id: string; readonly hostname: string }>
  /** Adds a domain to an app that is already served. */
  domain(appId: string, name: string): Promise<string>
  /** Simulates a visit to a name without a certificate. */
  visit(hostname: string): void
  /** Begins to lead, as a new server does. */
  lead(config?: Partial<EdgeConfig>): Promise<void>
  /** Stops leading, as a server that stops does. */
  stop(): Promise<void>
  /** Clears what the gateway shows, as in a new gateway. */
  forget(): void
  transaction<T>(work: (on: Transaction) => Promise<T>): Promise<T>
  rows(where?: string): Promise<Row[]>
  row(name: string): Promise<Row | undefined>
  /** Moves stored times into the past. */
  age(name: string, interval: string): Promise<void>
  events(): Promise<{ readonly event: string; readonly data: Record<string, unknown> }[]>
}

export async function createWorld(edge: Pick<EdgeConfig, 'acme'> & Partial<EdgeConfig>, httpPort = 0): Promise<World> {
  await using cleanup = new AsyncDisposableStack()
  const database = cleanup.use(await testDatabase())
  const log: Record<string, unknown>[] = []
  const logger = pino({ level: 'debug', base: null }, { write: (line: string) => void log.push(JSON.parse(line)) })
  const connection = { connectionString: database.url }
  const handle: DatabaseHandle = openDatabase({ ...connection, max: 6 }, logger)
  cleanup.defer(() => handle.close())
  const operatorId = await createAccountStore({ database: handle.db }).ensureOperator()
  const gateway = cleanup.use(await standIn(httpPort))
  const secrets = createSecretBox(Buffer.alloc(32, 7))
  let stack = createShutdownStack(logger)
  cleanup.defer(() => stack.unwind('server'))

  const project = async (accountId: string) => {
    const id = newId('project')
    await database.query(
      "insert into projects (id, account_id, name, region, plan, status) values ($1, $2, $1, 'local', 'free', 'active')",
      [id, accountId],
    )
    return id
  }
  const ownProject = await project(operatorId)
  const rows = (where = 'true') => database.query<Row>(`select * from certificates where ${where} order by id`)

  const owned = cleanup.move()
  return {
    ...{ database, httpPort: gateway.port, operatorId, secrets, log, rows },
    shown: gateway.certificates,
    answers: gateway.answers,
    async tenant() {
      const { id: accountId } = await createAccountStore({ database: handle.db }).create({
        name: 'tenant',
        plan: 'pro',
      })
      return { accountId, projectId: await project(accountId) }
    },
    async app(owner = { projectId: ownProject }) {
      const id = newId('app')
      const hostname = `web-${id.slice(-8)}.${domain}`
      await database.query('insert into apps (id, project_id, name, hostname) values ($1, $2, $1, $3)', [
        id,
        owner.projectId,
        hostname,
      ])
      return { id, hostname }
    },
    async domain(appId, name) {
      const id = newId('domain')
      await database.query(
        `insert into domains (id, app_id, project_id, account_id, name, registered, redirect, token, status, served_since)
         select $1, apps.id, project_id, account_id, $3, $4, false, 'token', 'active', now()
         from apps join projects on projects.id = project_id where apps.id = $2`,
        [id, appId, name, registeredDomain(name)],
      )
      return id
    },
    visit: gateway.visit,
    forget: () => gateway.certificates.clear(),
    async lead(config = {}) {
      await stack.unwind('server')
      stack = createShutdownStack(logger)
      const whole: EdgeConfig = {
        ...{ domain, dashboardHost, httpPort: gateway.port, httpsPort: 443, dnsServers: null, dnsUpdates: null },
        ...edge,
        ...config,
      }
      const tenancy = createTenancy({ database: handle.db })
      const certificates = createCertificates({
        database: handle.db,
        config: { edge: whole, path: process.env['PATH'] ?? '' },
        secrets,
        stack,
        logger,
        metrics: null,
        addProblems: () => undefined,
        findProject: tenancy.find,
        holdProject: tenancy.hold,
        announce,
      })
      await certificates.lead({
        database: handle.db,
        connection,
        stack,
        gateway: gateway.gateway,
        operatorId,
        accountOf: tenancy.accountOf,
        accountsOf: tenancy.accountsOf,
        servedDomains,
        domainsChannel,
        hostnamesOf: (some) => hostnamesOf(handle.db, some),
        findAppAt: (hostname) => appAt(handle.db, hostname),
      })
    },
    stop: () => stack.unwind('server'),
    transaction: (work) => handle.db.transaction().execute(work),
    async row(name) {
      const [found] = await database.query<Row>(
        'select * from certificates where $1 = any(names) order by id desc limit 1',
        [name],
      )
      return found
    },
    async age(name, interval) {
      const columns = ['not_before', 'expires_at', 'attempted_at', 'next_attempt_at', 'created_at']
      const set = columns.map((column) => `${column} = ${column} - $2::interval`).join(', ')
      await database.query('update acme_pauses set until = until - $1::interval', [interval])
      await database.query('update acme_orders set created_at = created_at - $1::interval', [interval])
      await database.query('update acme_accounts set created_at = created_at - $1::interval', [interval])
      // Comes last, because the leader is notified.
      await database.query(`update certificates set ${set} where $1 = any(names)`, [name, interval])
    },
    async events() {
      const found = await database.query<{ body: string }>('select body from events order by id')
      return found.map(({ body }) => JSON.parse(body))
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

/** Stands in for the edge and the gateway: a port that answers challenges, and a map of shown certificates. */
async function standIn(port: number) {
  const answers = new Map<string, string>()
  const certificates = new Map<string, string>()
  const listeners = new Set<(hostname: string) => void>()
  const server = createServer((request, response) => {
    const answer = answers.get(request.url ?? '')
    response.writeHead(answer === undefined ? 404 : 200).end(answer)
  })
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  const set = <Value>(map: Map<string, Value>, key: string, value: Value | null) =>
    void (value === null ? map.delete(key) : map.set(key, value))
  return {
    answers,
    certificates,
    port: (server.address() as AddressInfo).port,
    visit: (hostname: string) => {
      for (const listener of listeners) listener(hostname)
    },
    gateway: {
      name: async () => undefined,
      certify: async (name: string, pem: string | null) => set(certificates, name, pem),
      answerAt: async (path: string, body: string | null) => set(answers, path, body),
      onUncertified(listener: (hostname: string) => void) {
        listeners.add(listener)
        return () => void listeners.delete(listener)
      },
      names: () => [],
      certificates: () => [...certificates.keys()],
      answers: () => [...answers.keys()],
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
