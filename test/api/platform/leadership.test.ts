import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { pino } from 'pino'
import { expect, it } from 'vitest'
import { openDatabase } from '../../../server/src/platform/database.ts'
import {
  createEpochFence,
  NotLeading,
  openFencedDatabase,
  recordEpoch,
  recordedEpoch,
} from '../../../server/src/platform/leadership/epoch.ts'
import { fenceOff } from '../../../server/src/platform/leadership/leadership.ts'
import { testDatabase } from '../../harness/database.ts'
import { databaseProxy } from '../../harness/database-proxy.ts'
import { connect } from '../../harness/databases.ts'
import { type Candidate, candidate } from '../../harness/platform/fixtures/campaign.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

/** A database with a table for the leaders' writes, and a folder for their epochs. */
async function given() {
  await using cleanup = new AsyncDisposableStack()
  const directory = cleanup.use(await temporaryDirectory())
  const database = cleanup.use(await testDatabase())
  await database.query('create table written (epoch bigint not null)')
  const epochDirectory = join(directory.path, 'leader-epoch')
  const owned = cleanup.move()
  return {
    database,
    epochDirectory,
    directory: directory.path,
    common: { connection: { connectionString: database.url }, epochDirectory },
    row: async () => {
      const [row] = await database.query<{ epoch: string; holder: string | null }>(
        'select epoch, holder from leadership',
      )
      return { epoch: Number(row?.epoch), holder: row?.holder }
    },
    /** Ends the session that holds the lock. */
    breakLock: () =>
      database.query(
        `select pg_terminate_backend(pid) from pg_locks join pg_stat_activity using (pid)
         where locktype = 'advisory' and granted and datname = current_database()`,
      ),
    connections: () =>
      database.query(
        "select from pg_stat_activity where application_name ~ '^fairlead leader' and datname = current_database()",
      ),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

const write = ({ state, epoch }: Awaited<ReturnType<Candidate['leading']>>) =>
  state.pool.query('insert into written values ($1)', [epoch])

it('a single server leads, and gives up the leadership when it stops', async () => {
  await using test = await given()
  await using one = candidate({ id: 'one', ...test.common })
  await one.ready
  const leadership = await one.leading()
  expect(leadership.epoch).toBe(1)
  await write(leadership)
  expect(await test.row()).toEqual({ epoch: 1, holder: 'one' })
  await one.stop()
  expect(one.isLeader()).toBe(false)
  expect(one.stopped()).toBe(1)
  expect(leadership.signal.aborted).toBe(true)
  expect(leadership.signal.reason).toEqual(new Error('the leadership was given up'))
  expect(await test.row()).toEqual({ epoch: 1, holder: null })
  await expect.poll(test.connections).toEqual([])
})

it('one of three servers leads; when it stops another leads, until none is left', async () => {
  await using test = await given()
  await using one = candidate({ id: 'one', ...test.common })
  await using two = candidate({ id: 'two', ...test.common })
  await using three = candidate({ id: 'three', ...test.common })
  let candidates = [one, two, three]
  await Promise.all(candidates.map(({ ready }) => ready))
  for (const epoch of [1, 2, 3]) {
    const { epoch: begun } = await Promise.race(candidates.map((each) => each.leading()))
    expect(begun).toBe(epoch)
    expect(candidates.filter((each) => each.isLeader())).toHaveLength(1)
    const leader = candidates.find((each) => each.isLeader())
    await leader?.stop()
    candidates = candidates.filter((each) => each !== leader)
  }
})

it('the epoch and the work continue when the lock is lost and no other server takes it', async () => {
  await using test = await given()
  await using one = candidate({ id: 'one', ...test.common })
  const leadership = await one.leading()
  const holders = () =>
    test.database.query<{ pid: number; name: string }>(
      `select pid, application_name as name from pg_locks join pg_stat_activity using (pid)
       where locktype = 'advisory' and granted and datname = current_database()`,
    )
  const [lost] = await holders()
  await test.breakLock()
  // The lost session may hold the lock for another moment.
  const newHolders = async () => (await holders()).filter(({ pid }) => pid !== lost?.pid)
  await expect.poll(newHolders).toEqual([{ pid: expect.any(Number), name: 'fairlead leadership' }])
  await write(leadership)
  expect([one.terms.length, one.stopped(), leadership.signal.aborted]).toEqual([1, 0, false])
})

it('the epoch and the work continue when the database was unavailable, however long', async () => {
  await using test = await given()
  await using proxy = await databaseProxy(test.database.url, test.directory)
  await using one = candidate({ ...test.common, id: 'one', connection: { connectionString: proxy.url } })
  const leadership = await one.leading()
  await proxy.cut()
  await expect(write(leadership)).rejects.toThrow()
  // Longer than a leadership is valid without a renewal.
  await expect
    .poll(() => test.database.query("select from leadership where renewed_at < now() - interval '4 s'"))
    .toHaveLength(1)
  await expect(write(leadership)).rejects.toThrow()
  await proxy.restore()
  await expect
    .poll(() =>
      write(leadership).then(
        () => true,
        () => false,
      ),
    )
    .toBe(true)
  expect([one.terms.length, one.stopped(), leadership.epoch]).toEqual([1, 0, 1])
})

it('a leader that cannot reach the database loses to a server that can, and leads again later', async () => {
  await using test = await given()
  await using proxy = await databaseProxy(test.database.url, test.directory)
  await using one = candidate({ ...test.common, id: 'one', connection: { connectionString: proxy.url } })
  const first = await one.leading()
  await using two = candidate({ id: 'two', ...test.common })
  await two.ready
  await proxy.cut()
  const second = await two.leading()
  expect(second.epoch).toBe(2)
  expect(() => createEpochFence({ directory: test.epochDirectory, epoch: 1 }).check()).toThrow(NotLeading)
  const lost = new Promise((done) => first.signal.addEventListener('abort', done))
  await proxy.restore()
  await lost
  expect(first.signal.reason).toBeInstanceOf(NotLeading)
  await expect.poll(one.stopped).toBe(1)
  await two.stop()
  expect((await one.leading()).epoch).toBe(3)
})

it('connections of an older epoch are ended and refused by name, even when DATABASE_URL names the application', async () => {
  await using test = await given()
  const connection = { connectionString: `${test.database.url}&application_name=operator`, max: 2 }
  const logger = pino({ level: 'silent' })
  await test.database.query('update leadership set epoch = 1')
  const older = openFencedDatabase(connection, 1, logger)
  await older.pool.query('insert into written values (1)')
  const inTransaction = await older.pool.connect()
  await inTransaction.query('begin; insert into written values (1)')

  await test.database.query('update leadership set epoch = 2')
  const newer = openFencedDatabase(connection, 2, logger)
  await fenceOff(newer.pool, 2, test.epochDirectory, AbortSignal.timeout(60_000))
  expect(await test.database.query('select from written')).toHaveLength(1)
  await expect(inTransaction.query('commit')).rejects.toThrow()
  inTransaction.release(true)
  // An idle connection may not have noticed its end yet.
  const refusal = () => older.pool.query('insert into written values (1)').catch((error: unknown) => error)
  await expect.poll(refusal).toMatchObject({ name: 'NotLeading', code: 'not_leading', epoch: 1 })
  await newer.pool.query('insert into written values (2)')
  expect(await test.database.query('select from written')).toHaveLength(2)
  await older.close()
  await newer.close()
})

it('a new leader waits for the commits of requests in progress, even when DATABASE_URL names the application', async () => {
  await using test = await given()
  const options = { connectionString: `${test.database.url}&application_name=operator`, max: 2 }
  const { pool, close } = openDatabase(options, pino({ level: 'silent' }))
  const request = await pool.connect()
  await request.query('begin; insert into written values (1)')
  let looks = 0
  const counted = {
    query(text: string, values?: unknown[]) {
      looks += 1
      return pool.query(text, values)
    },
  } as unknown as typeof pool
  let hasBegun = false
  const begun = fenceOff(counted, 1, test.epochDirectory, AbortSignal.timeout(60_000)).then(() => {
    hasBegun = true
  })
  // Without a reason to wait there are three.
  await expect.poll(() => looks).toBeGreaterThan(5)
  expect(hasBegun).toBe(false)
  await request.query('commit')
  request.release()
  await begun
  await close()
})

it('a session of another database on the same server prevents no leadership, whatever its user calls it', async () => {
  await using test = await given()
  await using other = await testDatabase()
  await using hostile = await connect(other.url)
  await hostile.query(`set application_name = 'fairlead leader ${'9'.repeat(40)}'`)
  await using one = candidate({ id: 'one', ...test.common })
  expect((await one.leading()).epoch).toBe(1)
  expect(one.failures).toEqual([])
  await hostile.query("set application_name = 'fairlead leader 0'")
  await one.stop()
  await using two = candidate({ id: 'two', ...test.common })
  expect((await two.leading()).epoch).toBe(2)
  await hostile.query('select')
})

it('a leader begins when the transactions of a killed server have ended', async () => {
  await using test = await given()
  await using left = await connect(`${test.database.url}&application_name=fairlead`)
  await left.query('begin; create table late ()')
  await using one = candidate({ id: 'one', ...test.common })
  const asking = `select from pg_stat_activity
    where datname = current_database() and query ~ 'backend_xid' and pid <> pg_backend_pid()`
  await expect.poll(() => test.database.query(asking)).not.toEqual([])
  expect(one.terms).toEqual([])
  await left.query('commit')
  await one.leading()
})

it('a server whose work cannot start says why, lets others lead, and retries', async () => {
  await using test = await given()
  const starting = Promise.withResolvers<void>()
  const failing = Promise.withResolvers<void>()
  let attempts = 0
  const lead = async () => {
    attempts += 1
    starting.resolve()
    await failing.promise
    if (attempts === 1) throw new Error('the port is taken')
    return { stop: async () => undefined }
  }
  await using one = candidate({ id: 'one', ...test.common, lead })
  await starting.promise
  // It already contends when the first one fails, which contends again after a pause.
  await using two = candidate({ id: 'two', ...test.common })
  await two.ready
  failing.resolve()
  await expect(one.ready).rejects.toThrow('the port is taken')
  expect(one.failures).toHaveLength(1)
  await two.leading()
  await two.stop()
  await one.leading()
  expect(one.failures).toHaveLength(1)
})

it('a stop interrupts the start of the work', async () => {
  await using test = await given()
  const started = Promise.withResolvers<void>()
  await using one = candidate({
    id: 'one',
    ...test.common,
    lead: ({ signal }) => {
      started.resolve()
      return new Promise((_, fail) => signal.addEventListener('abort', () => fail(signal.reason)))
    },
  })
  await started.promise
  await one.stop()
  expect(one.failures).toEqual([])
  expect(await test.row()).toEqual({ epoch: 1, holder: null })
})

it('a stop while the database is unavailable ends without the database', async () => {
  await using test = await given()
  await using proxy = await databaseProxy(test.database.url, test.directory)
  await using one = candidate({ ...test.common, id: 'one', connection: { connectionString: proxy.url } })
  await one.leading()
  await proxy.cut()
  await one.stop()
})

it('a database that was restored from a backup does not restore an old epoch', async () => {
  await using test = await given()
  await recordEpoch(test.epochDirectory, 41)
  await using one = candidate({ id: 'one', ...test.common })
  expect((await one.leading()).epoch).toBe(42)
})

it('a fence refuses an older epoch, even when the older leader records its epoch after the newer one', async () => {
  await using test = await given()
  const directory = test.epochDirectory
  expect(await recordedEpoch(directory)).toBe(0)
  await recordEpoch(directory, 1)
  const fence = createEpochFence({ directory, epoch: 1 })
  fence.check()
  await recordEpoch(directory, 2)
  expect(() => fence.check()).toThrow('This server led in epoch 1 and no longer leads: epoch 2 has begun.')
  await recordEpoch(directory, 1)
  expect(() => fence.check()).toThrow(NotLeading)
  createEpochFence({ directory, epoch: 2 }).check()
  await recordEpoch(directory, 3)
  expect(await readdir(directory)).toEqual(['3'])
  expect([(await stat(directory)).mode & 0o777, (await stat(join(directory, '3'))).mode & 0o777]).toEqual([
    0o700, 0o600,
  ])
})
