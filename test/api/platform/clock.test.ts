import { setTimeout as sleep } from 'node:timers/promises'
import { pino } from 'pino'
import { afterEach, describe, expect, it } from 'vitest'
import { createAccountStore } from '../../../server/src/features/accounts/accounts.ts'
import { createRateLimiter } from '../../../server/src/features/accounts/rate-limiter.ts'
import { createAttemptLimiter } from '../../../server/src/platform/attempts.ts'
import { watchClock } from '../../../server/src/platform/clock.ts'
import { openDatabase } from '../../../server/src/platform/database.ts'
import { testDatabase } from '../../harness/database.ts'
import { testEndpoint } from '../../harness/endpoint.ts'
import { ownServer } from '../../harness/server.ts'

const hourMs = 3_600_000

/* The clock of this process, and of the servers that run in it. PostgreSQL's clock does not change. */
const RealDate = Date
let shiftMs = 0
class ShiftedDate extends RealDate {
  constructor(...given: [] | [string | number | Date]) {
    if (given.length === 0) super(RealDate.now() + shiftMs)
    else super(...given)
  }

  static override now(): number {
    return RealDate.now() + shiftMs
  }
}
globalThis.Date = ShiftedDate as DateConstructor
afterEach(() => {
  shiftMs = 0
})

describe('a clock that is set back by an hour', () => {
  it('delays no webhook, neither a later attempt nor a new event', async () => {
    shiftMs = hourMs
    await using server = await ownServer()
    await using endpoint = await testEndpoint((response, _, count) => response.writeHead(count === 1 ? 500 : 204).end())
    const { id } = await server.client.webhooks.create({ body: { url: endpoint.url } })
    await server.client.webhooks.test({ params: { id } })
    await endpoint.waitFor(1)
    const retry = () => server.database.query(`select from deliveries where failures = 1 and next_attempt_at > now()`)
    await expect.poll(async () => (await retry()).length).toBe(1)
    shiftMs = 0
    await endpoint.waitFor(2)
    await server.client.webhooks.test({ params: { id } })
    await endpoint.waitFor(3)
    expect(server.log.filter(({ msg }) => /^the clock was set back/.test(String(msg)))).toHaveLength(1)
  })

  it('lengthens no window of a limit', async () => {
    await using database = await testDatabase()
    const { db, close } = openDatabase({ connectionString: database.url, max: 2 }, pino({ level: 'silent' }))
    await using _ = { [Symbol.asyncDispose]: close }
    const limits = createRateLimiter({ database: db, windows: 'rate_windows' })
    const limiter = createAttemptLimiter(db, { name: 'test', most: 1, windowMs: 60_000 })
    const account = await createAccountStore({ database: db }).ensureOperator()
    expect((await limits.count(account, 1)).retryAfter).toBeUndefined()
    expect(await limiter.take('key')).toBeUndefined()
    await database.query(`update rate_windows set started_at = started_at + interval '1 hour'`)
    await database.query(`update attempts set ends_at = ends_at + interval '1 hour'`)
    expect((await limits.count(account, 1)).retryAfter).toBeUndefined()
    expect(await limiter.take('key')).toBeUndefined()
    expect(await limiter.take('key')).toBeLessThanOrEqual(60)
  })
})

describe('the watch of the clock', () => {
  const watched = (fails = 0) => {
    const clocks = { wall: 1_000_000, monotonic: 0 }
    const backs: number[] = []
    let left = fails
    const watch = watchClock({
      async onBack(ms) {
        if (left-- > 0) throw new Error('the database is away')
        backs.push(ms)
      },
      onError: () => undefined,
      clocks: { wall: () => clocks.wall, monotonic: () => clocks.monotonic },
      everyMs: 1,
    })
    const pass = async (ms: number, wallMs = ms) => {
      clocks.monotonic += ms
      clocks.wall += wallMs
      await sleep(20)
    }
    return { backs, pass, stop: watch.stop }
  }

  it('reports once how far the clock was set back, even when the report fails at first', async () => {
    const { backs, pass, stop } = watched(2)
    await pass(1_000)
    await pass(1_000, 1_000 - hourMs)
    await pass(1_000)
    await expect.poll(() => backs).toEqual([hourMs])
    await stop()
  })

  it('ignores a clock that is set forward, is slow, or stands still while the machine sleeps', async () => {
    const { backs, pass, stop } = watched()
    await pass(1_000, 1_000 + hourMs)
    for (let second = 0; second < 5; second++) await pass(1_000, 999)
    await pass(0, hourMs)
    expect(backs).toEqual([])
    await stop()
  })
})
