import { Socket } from 'node:net'
import { pino } from 'pino'
import { afterEach, expect, it, vi } from 'vitest'
import { takeServerLock } from '../../server/src/platform/startup/server-lock.ts'
import { testDatabase } from '../harness/database.ts'
import { connect, query } from '../harness/databases.ts'

afterEach(() => {
  vi.restoreAllMocks()
})

/** Creates a database, and takes its server lock. */
async function lockedDatabase() {
  await using cleanup = new AsyncDisposableStack()
  const database = cleanup.use(await testDatabase())
  const onLost = vi.fn<() => void>()
  const sockets: Socket[] = []
  let onConnect: () => void = () => undefined
  const lock = await takeServerLock({
    connection: {
      connectionString: database.url,
      stream: () => {
        onConnect()
        const socket = new Socket()
        sockets.push(socket)
        return socket
      },
    },
    logger: pino({ level: 'silent' }),
    onLost,
  })
  cleanup.defer(() => lock.release())
  const owned = cleanup.move()
  return {
    url: database.url,
    lock,
    onLost,
    /** Sets a function that is called at each later attempt to connect. */
    watch: (callback: () => void) => {
      onConnect = callback
    },
    breakConnection: () =>
      database.query(
        `select pg_terminate_backend(pid) from pg_stat_activity
         where application_name = 'fairlead-server' and datname = current_database()`,
      ),
    isDisconnected: () => sockets.every(({ destroyed }) => destroyed),
    holders: async () => {
      const held = await database.query<{ name: string }>(
        `select application_name as name from pg_locks join pg_stat_activity using (pid)
         where locktype = 'advisory' and granted and datname = current_database()`,
      )
      return held.map(({ name }) => name)
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

/** Waits for the lock on a connection of its own. A server only polls for it, so this gets the lock first. */
async function rival(url: string) {
  const client = await connect(url)
  const { rows } = await client.query<{ key: string }>(
    `select ((classid::bigint << 32) | objid::bigint)::text as key from pg_locks
     where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())`,
  )
  const holds = client.query('select pg_advisory_lock($1)', [rows[0]?.key])
  const inLine = `select from pg_locks where locktype = 'advisory' and not granted
    and database = (select oid from pg_database where datname = current_database())`
  await expect.poll(() => query(url, inLine)).toHaveLength(1)
  return { holds, leave: () => client.end() }
}

it('is taken again when its connection is lost, and released', async () => {
  await using given = await lockedDatabase()
  await given.breakConnection()
  await expect.poll(given.holders).toEqual(['fairlead-server'])
  await given.lock.release()
  await expect.poll(given.isDisconnected).toBe(true)
  expect(given.onLost).not.toHaveBeenCalled()
})

it('leaves no connection when it is released while it is being taken again', async () => {
  await using given = await lockedDatabase()
  const released = new Promise<void>((done) => given.watch(() => done(given.lock.release())))
  await given.breakConnection()
  await released
  await expect.poll(given.isDisconnected).toBe(true)
  expect(given.onLost).not.toHaveBeenCalled()
})

it('is lost when another server has taken it first', async () => {
  await using given = await lockedDatabase()
  const other = await rival(given.url)
  await given.breakConnection()
  await other.holds
  await expect.poll(() => given.onLost.mock.calls).toHaveLength(1)
  await other.leave()
})

it('is not lost to a connection that ends soon, however long the database was unreachable', async () => {
  await using given = await lockedDatabase()
  const other = await rival(given.url)
  let attempts = 0
  given.watch(() => {
    attempts += 1
    // Simulates that the first attempt took an hour.
    const now = performance.now()
    if (attempts === 1) vi.spyOn(performance, 'now').mockReturnValue(now + 3_600_000)
  })
  await given.breakConnection()
  await other.holds
  await expect.poll(() => attempts).toBeGreaterThan(2)
  await other.leave()
  await expect.poll(given.holders).toEqual(['fairlead-server'])
  expect(given.onLost).not.toHaveBeenCalled()
})

it('is held once the transactions of a killed server have ended', async () => {
  await using database = await testDatabase()
  await using left = await connect(`${database.url}&application_name=fairlead`)
  await left.query('begin; create table late ()')
  const taking = takeServerLock({
    connection: { connectionString: database.url },
    logger: pino({ level: 'silent' }),
    onLost: () => undefined,
  })
  let taken = false
  void taking.then(() => (taken = true))
  await expect
    .poll(() => database.query("select from pg_stat_activity where query ~ 'backend_xid' and pid <> pg_backend_pid()"))
    .not.toEqual([])
  expect(taken).toBe(false)
  await left.query('commit')
  await (await taking).release()
})
