import { createPrivateKey, randomBytes, X509Certificate } from 'node:crypto'
import { pino } from 'pino'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createAccountStore } from '../../../server/src/features/accounts/accounts.ts'
import { insertAutomatic } from '../../../server/src/features/certificates/rows.ts'
import type { ServedName } from '../../../server/src/features/certificates/selection.ts'
import { orderKeyContext } from '../../../server/src/features/certificates/tables.ts'
import { startWorker } from '../../../server/src/features/certificates/worker.ts'
import { type Database, openDatabase } from '../../../server/src/platform/database.ts'
import { createSecretBox } from '../../../server/src/platform/secrets.ts'
import { type TestDatabase, testDatabase } from '../../harness/database.ts'
import { authority, type Issued, issue } from '../../harness/issuing.ts'

/*
 * Turns due certificates into orders, with an authority in memory. Real authorities are in
 * test/system/tls/certificates.
 */

const cleanup = new AsyncDisposableStack()
const secrets = createSecretBox(randomBytes(32))
const logger = pino({ level: 'silent' })
const minuteMs = 60_000
let database: TestDatabase
let db: Database
let issuer: Issued
let operatorId: string

beforeAll(async () => {
  database = cleanup.use(await testDatabase())
  const handle = openDatabase({ connectionString: database.url, max: 6 }, logger)
  cleanup.defer(handle.close)
  db = handle.db
  operatorId = await createAccountStore({ database: db }).ensureOperator()
  issuer = await authority({ to: 1000 })
})
afterAll(() => cleanup.disposeAsync())

interface Asked {
  readonly names: readonly string[]
  readonly key: string
  readonly url: string | null
  /** The authority issues the certificate. */
  readonly issue: () => void
}

beforeEach(async () => {
  await database.query('delete from certificates')
  await database.query('delete from acme_orders')
})

/** Starts a worker for the operator's names that need certificates. */
async function working(names: readonly string[], perDomain = 1000, isShown = true) {
  const served = names.map(
    (name): ServedName => ({ name, accountId: operatorId, projectId: null, appId: null, domainId: null }),
  )
  for (const name of served) await insertAutomatic(db, name)
  const orders: Asked[] = []
  const errors: string[] = []
  let revocations = 0
  const worker = startWorker({
    database: db,
    secrets,
    logger: pino({}, { write: (line: string) => void errors.push(JSON.parse(line).msg) }),
    operatorId,
    limits: { perDomain, perAccount: 1000 },
    servedNames: async () => served,
    isShown: () => isShown,
    announce: async () => undefined,
    acme: {
      async order({ names, key, url, onOrder, signal }) {
        const gate = Promise.withResolvers<void>()
        signal.addEventListener('abort', () => gate.reject(signal.reason), { once: true })
        if (url === null) await onOrder(`https://authority.test/orders/${names[0]}`)
        orders.push({ names, key, url, issue: gate.resolve })
        await gate.promise
        const { certificate } = await issue({ names, issuer, to: 90, key: createPrivateKey(key) })
        return certificate + issuer.certificate
      },
      revoke: async () => {
        revocations += 1
      },
    },
  })
  return { orders, errors, worker, revocations: () => revocations, [Symbol.asyncDispose]: () => worker.stop() }
}

interface Row {
  readonly name: string
  readonly order_url: string | null
  readonly order_key: Buffer | null
  readonly id: string
  readonly chain: string | null
  readonly failure: { readonly code: string } | null
  readonly next_attempt_at: Date | null
  readonly is_under_way: boolean
  readonly attempts: number
  readonly revoked_at: Date | null
}

const rows = () => database.query<Row>('select *, names[1] as name from certificates order by names[1]')

const until = (check: () => unknown) => expect.poll(check, { timeout: 20_000 })

/** Fails the end of an attempt, like a full disk. */
async function refuseEnds(): Promise<void> {
  await database.query(`create function refuse() returns trigger language plpgsql as $$
    begin
      if old.is_under_way and not new.is_under_way then raise exception 'away'; end if;
      return new;
    end $$`)
  await database.query(`create trigger refuse before update on certificates for each row execute function refuse()`)
}

const allowEnds = () => database.query('drop function refuse cascade')

describe('certificates that are due', () => {
  it('have separate orders and keys, which are stored before the worker uses them', async () => {
    await using given = await working(['a.example.net', 'b.example.net'])
    await until(() => given.orders.length).toBe(2)
    const stored = (await rows()).map(({ id, order_url, order_key }) => ({
      url: order_url,
      key: secrets.decrypt(order_key ?? Buffer.of(), orderKeyContext(id)),
    }))
    const keys = new Map(given.orders.map(({ names, key }) => [names[0], key]))
    expect(stored).toEqual(
      ['a.example.net', 'b.example.net'].map((name) => ({
        url: `https://authority.test/orders/${name}`,
        key: keys.get(name),
      })),
    )
    expect(new Set(keys.values()).size).toBe(2)
  })

  it('are installed one by one, and wait until two thirds of their time', async () => {
    await using given = await working(['a.example.net', 'b.example.net'])
    await until(() => given.orders.length).toBe(2)
    given.orders.find(({ names }) => names[0] === 'a.example.net')?.issue()
    await until(async () => (await rows()).map(({ chain }) => chain !== null)).toEqual([true, false])
    const [first, second] = await rows()
    expect(new X509Certificate(first?.chain ?? '').subjectAltName).toBe('DNS:a.example.net')
    expect(first).toMatchObject({ order_url: null, order_key: null })
    expect(second?.order_url).not.toBeNull()
    const days = ((first?.next_attempt_at?.getTime() ?? 0) - Date.now()) / (24 * 60 * minuteMs)
    expect(days).toBeGreaterThan(55)
    expect(days).toBeLessThan(65)
  })

  it('continue with orders that another server has begun', async () => {
    {
      await using given = await working(['a.example.net'])
      await until(() => given.orders.length).toBe(1)
    }
    const [{ id, order_url: url, order_key: key } = {} as Row] = await rows()
    await using given = await working(['a.example.net'])
    await until(() => given.orders.length).toBe(1)
    expect(given.orders[0]).toMatchObject({ url, key: secrets.decrypt(key ?? Buffer.of(), orderKeyContext(id)) })
  })

  it('are retried when the database was unavailable at the end of an attempt, which counts as failed', async () => {
    await using given = await working(['a.example.net'])
    await until(() => given.orders.length).toBe(1)
    await refuseEnds()
    given.orders[0]?.issue()
    await until(() => given.errors).toContain('a certificate attempt ended with an unexpected error')
    await allowEnds()
    await until(async () => {
      given.worker.wake()
      return (await rows()).map(({ is_under_way }) => is_under_way)
    }).toEqual([false])
    expect(await rows()).toMatchObject([{ attempts: 1, failure: { code: 'server_error' } }])
    await database.query('update certificates set next_attempt_at = now()')
    given.worker.wake()
    await until(() => given.orders.length).toBe(2)
  })

  it('are revoked when the database was unavailable at the end of their revocation', async () => {
    {
      await using given = await working(['a.example.net'])
      await until(() => given.orders.length).toBe(1)
      given.orders[0]?.issue()
      await until(async () => (await rows())[0]?.chain).not.toBeNull()
    }
    await refuseEnds()
    await database.query('update certificates set revocation_requested_at = now(), next_attempt_at = now()')
    await using given = await working([], 1000, false)
    await until(() => given.errors).toContain('a certificate attempt ended with an unexpected error')
    expect(await rows()).toMatchObject([{ revoked_at: null }])
    await allowEnds()
    await until(async () => {
      given.worker.wake()
      return (await rows()).map(({ is_under_way }) => is_under_way)
    }).toEqual([false])
    await database.query('update certificates set next_attempt_at = now()')
    given.worker.wake()
    await until(async () => (await rows())[0]?.revoked_at).not.toBeNull()
    expect(given.revocations()).toBeGreaterThan(1)
  })

  it('wait half an hour where the authority’s limit for a domain is reached, and others continue', async () => {
    {
      await using given = await working(['a.example.net'], 1)
      await until(() => given.orders.length).toBe(1)
    }
    await using given = await working(['b.example.net', 'c.example.org'], 1)
    await until(() => given.orders.map(({ names }) => names)).toEqual([['c.example.org']])
    const waiting = async () => (await rows()).find(({ name }) => name === 'b.example.net')
    await until(async () => (await waiting())?.failure?.code).toBe('limit_reached')
    const minutes = (((await waiting())?.next_attempt_at?.getTime() ?? 0) - Date.now()) / minuteMs
    expect(minutes).toBeGreaterThan(29)
    expect(minutes).toBeLessThanOrEqual(30)
  })
})
