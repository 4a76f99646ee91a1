import fc from 'fast-check'
import { pino } from 'pino'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createAccountStore } from '../../../server/src/features/accounts/accounts.ts'
import {
  bucketAt,
  bucketsUntil,
  type Ring,
  ringOf,
  rings,
  slotOf,
  tablesOf,
} from '../../../server/src/features/apps/metrics/buckets.ts'
import { createMetrics, type InstanceUsage, usedSince } from '../../../server/src/features/apps/metrics/collect.ts'
import { latestUsage, metricsOf } from '../../../server/src/features/apps/metrics/read.ts'
import { type Database, openDatabase } from '../../../server/src/platform/database.ts'
import { newId } from '../../../server/src/platform/ids.ts'
import { type TestDatabase, testDatabase } from '../../harness/database.ts'

const cleanup = new AsyncDisposableStack()
let database: TestDatabase
let db: Database
let app: string
/** Milliseconds of Unix time. */
let now: number

beforeAll(async () => {
  database = cleanup.use(await testDatabase())
  const handle = openDatabase({ connectionString: database.url, max: 4 }, pino({ level: 'silent' }))
  cleanup.defer(handle.close)
  db = handle.db
})
afterAll(() => cleanup.disposeAsync())
beforeEach(async () => {
  now = Date.parse('2026-03-01T10:00:05Z')
  app = await newApp()
})

async function newApp(): Promise<string> {
  const account = await createAccountStore({ database: db }).ensureOperator()
  const [project, id] = [newId('project'), newId('app')]
  await database.query(
    "insert into projects (id, account_id, name, region, plan, status) values ($1, $2, 'p', 'r', 'free', 'active')",
    [project, account],
  )
  await database.query("insert into apps (id, project_id, name, hostname) values ($1, $2, 'a', $1)", [id, project])
  return id
}

const newMetrics = () => createMetrics({ database: db, clock: () => now })
const rowsOf = (ring: Ring) =>
  tablesOf(db)
    .selectFrom('app_metrics')
    .selectAll()
    .where('app_id', '=', app)
    .where('seconds', '=', ring.seconds)
    .execute()
const read = async (range: Ring['range']) => metricsOf(ringOf(range), await rowsOf(ringOf(range)), now)
const asked = (requests: number, times: readonly number[] = [requests]) => [
  { appId: app, requests, errors: 0, answers: [requests, 0, 0, 0], times },
]
const instance = (name: string, cpuSeconds: number, memoryBytes = 50e6): InstanceUsage => ({
  appId: app,
  deploymentId: 'dep_1',
  name,
  used: { memoryBytes, cpuSeconds },
  limits: { memoryBytes: 100e6, cpus: 0.5 },
})

describe('the rings', () => {
  it('give each bucket of their range a separate slot', () => {
    fc.assert(
      fc.property(fc.constantFrom(...rings), fc.integer({ min: 1e12, max: 4e12 }), (ring, at) => {
        const all = bucketsUntil(ring, at)
        expect(new Set(all.map((began) => slotOf(ring, began)))).toEqual(new Set(all.keys()))
        expect(all.at(-1)).toBe(bucketAt(ring, at))
      }),
    )
  })
})

describe('metrics', () => {
  it('add up in all rings the counts of two leaders, each for its own time', async () => {
    const first = newMetrics()
    first.count(asked(3, [0, 3]))
    first.noteRestart(app)
    await first.write()
    await first.write()
    const second = newMetrics()
    second.count(asked(2))
    now += 30_000
    second.count(asked(1, [0, 0, 0, 0, 1]))
    await second.write()
    for (const { range } of rings) {
      const { points, totals } = await read(range)
      expect(points.at(-1)).toMatchObject({ requests: 6, status_2xx: 6, status_5xx: 0, restarts: 1 })
      expect(totals).toMatchObject({ requests: 6, restarts: 1 })
      expect(totals.p99_ms).toBeGreaterThan(1.5)
    }
    now += 60_000
    expect((await read('1h')).points.slice(-2)).toMatchObject([{ requests: 6 }, { requests: 0, p50_ms: null }])
  })

  it('take a fixed number of rows, however long the app lives', async () => {
    const metrics = newMetrics()
    for (let hours = 0; hours < 9 * 24; hours += 1) {
      metrics.count(asked(1))
      await metrics.write()
      now += 3_600_000 + 60_000
    }
    now -= 3_600_000 + 60_000
    for (const ring of rings) expect((await rowsOf(ring)).length).toBeLessThanOrEqual(ring.buckets)
    expect((await read('7d')).totals.requests).toBeLessThanOrEqual(168)
    expect((await read('7d')).totals.requests).toBeGreaterThan(160)
    expect((await read('1h')).totals.requests).toBe(1)
  })

  it('show the most memory beside its limit, and the CPU time since the previous measurement', async () => {
    const metrics = newMetrics()
    metrics.measure([instance('web.1', 1_000, 60e6)])
    metrics.measure([instance('web.1', 1_000), instance('web.2', 7, 30e6)])
    await metrics.write()
    const { points } = await read('1h')
    expect(points.at(-1)).toMatchObject({
      memory_bytes: 80e6,
      memory_limit_bytes: 200e6,
      cpu_limit: 1,
      cpus: 0,
      instances: 2,
    })
    const latest = await latestUsage(db, app)
    expect(latest?.instances).toMatchObject([
      { name: 'web.1', memory_bytes: 50e6, cpus: 0 },
      { name: 'web.2', memory_bytes: 30e6, cpus: 0 },
    ])
  })

  it('count a partial write once', async () => {
    const metrics = newMetrics()
    metrics.count(asked(4))
    now += 60_000
    metrics.count(asked(1))
    await database.query(
      "alter table app_metrics add constraint early check (began < '2026-03-01T10:01:00Z') not valid",
    )
    await expect(metrics.write()).rejects.toThrow()
    await database.query('alter table app_metrics drop constraint early')
    await metrics.write()
    expect((await read('24h')).totals.requests).toBe(5)
  })

  it('keep unwritten counts for the next time, and disappear with their app', async () => {
    await database.query('alter table app_metrics rename to away')
    const metrics = newMetrics()
    metrics.count(asked(4))
    await expect(metrics.write()).rejects.toThrow()
    await database.query('alter table away rename to app_metrics')
    metrics.count(asked(1))
    await metrics.write()
    expect((await read('1h')).totals.requests).toBe(5)
    metrics.count([...asked(1), { appId: 'app_gone', requests: 1, errors: 0, answers: [], times: [] }])
    metrics.measure([instance('web.1', 1)])
    await metrics.write()
    await database.query('delete from apps where id = $1', [app])
    expect(await rowsOf(ringOf('1h'))).toEqual([])
    expect(await latestUsage(db, app)).toBeUndefined()
  })
})

describe('the CPU time of an instance', () => {
  it('counts from zero after a restart, and nothing before the first measurement', () => {
    const since = (before: number | null, after: number) =>
      usedSince(new Map(before === null ? [] : [['dep_1 web.1', before]]), [instance('web.1', after)])[0]
        ?.cpuSecondsSince
    expect([since(null, 90), since(5, 8), since(5, 2)]).toEqual([0, 3, 2])
  })
})
