import { Pool } from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  createReceiver,
  type DedupeStore,
  memoryStore,
  type PostgresStore,
  postgresStore,
  type ReceiverError,
} from '../../../receiver/src/index.ts'
import { type TestDatabase, testDatabase } from '../../harness/database.ts'
import { clock, codeOf, deployed, json, SECRET, signedHeaders } from '../../harness/receiver/support.ts'

let database: TestDatabase
let pool: Pool
let tables = 0
beforeAll(async () => {
  database = await testDatabase()
  pool = new Pool({ connectionString: database.url })
  // The end of the pool does not wait for its connections, and dropping the database breaks closing connections.
  pool.on('error', () => undefined)
  pool.on('connect', (client) => client.on('error', () => undefined))
})
afterAll(async () => {
  await pool?.end()
  await database?.[Symbol.asyncDispose]()
})

async function freshTable(): Promise<PostgresStore> {
  const store = postgresStore({ database: pool, table: `webhooks_${++tables}` })
  await store.createTable()
  await store.createTable()
  return store
}

/** Claims the key, and fails when that is not possible. */
async function take(store: DedupeStore, key: string, lease = 60_000) {
  const claim = await store.claim(key, lease)
  if (claim.state !== 'claimed') throw new Error(`the key is ${claim.state}`)
  return claim
}

const state = async (store: DedupeStore, key: string) => (await store.claim(key, 60_000)).state

describe.each<[string, () => DedupeStore | Promise<DedupeStore>]>([
  ['memoryStore', memoryStore],
  ['postgresStore', freshTable],
])('%s', (_, make) => {
  it('grants one of 100 concurrent claims of a key', async () => {
    const store = await make()
    const claims = await Promise.all(Array.from({ length: 100 }, () => store.claim('a', 60_000)))
    expect(claims.filter((claim) => claim.state === 'claimed')).toHaveLength(1)
    expect(claims.filter((claim) => claim.state === 'busy')).toHaveLength(99)
    expect(await state(store, 'b')).toBe('claimed')
  })

  it('never grants a committed key again', async () => {
    const store = await make()
    const claim = await take(store, 'a', 0)
    await claim.commit()
    await claim.release()
    expect(await state(store, 'a')).toBe('done')
  })

  it('grants a released key again', async () => {
    const store = await make()
    await (await take(store, 'a')).release()
    expect(await state(store, 'a')).toBe('claimed')
  })

  it('grants a key whose lease has expired, and then obeys only its new owner', async () => {
    const store = await make()
    const crashed = await take(store, 'a', 0)
    const next = await take(store, 'a')
    await crashed.release()
    await crashed.commit()
    expect(await state(store, 'a')).toBe('busy')
    await next.commit()
    expect(await state(store, 'a')).toBe('done')
  })

  it('commits after the lease when no other claim took the key', async () => {
    const store = await make()
    await (await take(store, 'a', 0)).commit()
    expect(await state(store, 'a')).toBe('done')
  })

  describe('in a receiver', () => {
    const body = json(deployed)

    it('runs a handler once for 100 concurrent copies, asks the others to retry, and then answers that it is done', async () => {
      let runs = 0
      let finish = () => {}
      const finished = new Promise<void>((resolve) => {
        finish = resolve
      })
      const receiver = createReceiver({ secrets: [SECRET], clock, dedupe: await make() })
      receiver.on('deployment.*', () => {
        runs++
        return finished
      })
      const busy = Array.from({ length: 100 }, () => receiver.receive(signedHeaders(body), body))
      // All copies except the handled one get an early response.
      let answered = 0
      await new Promise<void>((resolve) => {
        for (const answer of busy) void answer.then(() => ++answered === 99 && resolve())
      })
      finish()
      const answers = await Promise.all(busy)
      expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
      for (const answer of answers.filter(({ status }) => status !== 200)) {
        expect(answer).toMatchObject({
          status: 503,
          headers: { 'Retry-After': '5' },
          body: { error: { code: 'in_progress' } },
        })
      }
      expect(runs).toBe(1)
      const again = await receiver.receive(signedHeaders(body), body)
      expect(again).toMatchObject({ status: 200, body: { outcome: 'duplicate' } })
      expect(runs).toBe(1)
    })

    it('runs a failed handler again, but not a successful one of the same event', async () => {
      const ran = { flaky: 0, sound: 0 }
      const receiver = createReceiver({ secrets: [SECRET], clock, dedupe: await make(), onError: () => {} })
      receiver.on('deployment.succeeded', () => {
        if (++ran.flaky < 3) throw new Error('not yet')
      })
      receiver.on('*', () => void ran.sound++)
      const statuses: number[] = []
      for (let i = 0; i < 4; i++) statuses.push((await receiver.receive(signedHeaders(body), body)).status)
      expect(statuses).toEqual([500, 500, 200, 200])
      expect(ran).toEqual({ flaky: 3, sound: 1 })
    })

    it('keeps the claim of a handler that continues after its deadline, and counts its success', async () => {
      let finish = () => {}
      const finished = new Promise<void>((resolve) => {
        finish = resolve
      })
      let runs = 0
      const store = await make()
      let committed = () => {}
      const commit = new Promise<void>((resolve) => {
        committed = resolve
      })
      const watched: DedupeStore = {
        async claim(key) {
          const claim = await store.claim(key, 60_000)
          if (claim.state !== 'claimed') return claim
          return { ...claim, commit: () => claim.commit().then(committed) }
        },
      }
      // The deadline includes the store's claim. Only the first delivery waits until it is exceeded.
      const receiver = createReceiver({ secrets: [SECRET], clock, dedupe: watched, deadline: 2, onError: () => {} })
      receiver.on('deployment.succeeded', () => {
        runs++
        return finished
      })
      const codes: unknown[] = []
      for (let i = 0; i < 2; i++) codes.push((await receiver.receive(signedHeaders(body), body)).body)
      expect(codes).toMatchObject([{ error: { code: 'deadline_exceeded' } }, { error: { code: 'in_progress' } }])
      finish()
      await commit
      expect((await receiver.receive(signedHeaders(body), body)).body).toEqual({ outcome: 'duplicate' })
      expect(runs).toBe(1)
    })
  })
})

describe('a failing store', () => {
  const body = json(deployed)
  const lost = new Error('no database')
  const stores: Record<string, [DedupeStore, number]> = {
    'before the handlers': [{ claim: () => Promise.reject(lost) }, 0],
    'after the handlers': [
      {
        claim: async () => ({
          state: 'claimed',
          commit: () => Promise.reject(lost),
          release: async () => undefined,
        }),
      },
      2,
    ],
  }
  it.each(Object.entries(stores))('%s is reported as a store error, with its cause', async (_, [dedupe, ran]) => {
    const errors: ReceiverError[] = []
    let runs = 0
    const receiver = createReceiver({ secrets: [SECRET], clock, dedupe, onError: (error) => void errors.push(error) })
    receiver.on('*', () => void runs++)
    receiver.on('deployment.*', () => void runs++)
    const answer = await receiver.receive(signedHeaders(body), body)
    expect(answer).toMatchObject({ status: 503, body: { error: { code: 'dedupe_failed' } } })
    expect(answer.headers).toHaveProperty('Retry-After')
    expect(errors).toMatchObject([{ code: 'dedupe_failed', cause: lost }])
    expect(runs).toBe(ran)
  })
})

describe('memoryStore', () => {
  it('forgets the oldest beyond its capacity', async () => {
    const store = memoryStore({ capacity: 2 })
    for (const key of ['a', 'b', 'c']) await (await take(store, key)).commit()
    expect([await state(store, 'a'), await state(store, 'b'), await state(store, 'c')]).toEqual([
      'claimed',
      'done',
      'done',
    ])
  })

  it('holds a lease according to its clock', async () => {
    let now = 0
    const store = memoryStore({ clock: () => now })
    await take(store, 'a', 1000)
    now = 999
    expect(await state(store, 'a')).toBe('busy')
    now = 1000
    expect(await state(store, 'a')).toBe('claimed')
  })

  it('refuses an invalid capacity', () => {
    for (const capacity of [0, -1, 1.5, Number.NaN])
      expect(codeOf(() => memoryStore({ capacity }))).toBe('invalid_option')
  })
})

describe('postgresStore', () => {
  it('creates its table for any number of processes that start at once', async () => {
    for (let round = 0; round < 10; round++) {
      const table = `webhooks_${++tables}`
      await Promise.all(Array.from({ length: 4 }, () => postgresStore({ database: pool, table }).createTable()))
      expect(await state(postgresStore({ database: pool, table }), 'a')).toBe('claimed')
    }
  })

  it('prunes keys older than the given days, and keeps the rest', async () => {
    const store = await freshTable()
    await (await take(store, 'old')).commit()
    await (await take(store, 'new')).commit()
    await take(store, 'running')
    await database.query(`update webhooks_${tables} set committed_at = now() - interval '8 days' where key = 'old'`)
    await store.prune(7)
    expect([await state(store, 'old'), await state(store, 'new'), await state(store, 'running')]).toEqual([
      'claimed',
      'done',
      'busy',
    ])
  })

  it('accepts only plain table names', () => {
    for (const table of ['', 'a b', 'a;drop table b', 'a"b', 'A', '1a', 'a.b.c', 'a\n']) {
      expect(codeOf(() => postgresStore({ database: pool, table }))).toBe('invalid_option')
    }
    expect(codeOf(() => postgresStore({ database: pool, table: 'app.webhooks_1' }))).toBeUndefined()
  })
})
