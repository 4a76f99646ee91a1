import { pino } from 'pino'
import { expect, it } from 'vitest'
import { openDatabase } from '../../../server/src/platform/database.ts'
import { registerServer, type ServerIdentity } from '../../../server/src/platform/leadership/servers.ts'
import { testDatabase } from '../../harness/database.ts'
import { candidate } from '../../harness/platform/fixtures/campaign.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

const logger = pino({ level: 'silent' })

const identity = (id: string, dataDirectory = 'data'): ServerIdentity => ({
  id,
  version: '1.2.3',
  schema: '0001-first-release-1',
  host: 'machine',
  pid: 42,
  address: 'http://127.0.0.1:3000',
  dataDirectory,
})

async function given() {
  await using cleanup = new AsyncDisposableStack()
  const database = cleanup.use(await testDatabase())
  const { db, close } = openDatabase({ connectionString: database.url, max: 4 }, logger)
  cleanup.defer(close)
  const conflicts: Error[] = []
  const registrations = cleanup.use(new AsyncDisposableStack())
  const owned = cleanup.move()
  return {
    database,
    db,
    conflicts,
    async register(server: ServerIdentity) {
      const { signal } = new AbortController()
      const onConflict = (error: Error) => conflicts.push(error)
      const registration = await registerServer({ db, server, logger, signal, onConflict })
      registrations.defer(() => registration.stop())
      return registration
    },
    ids: async () => {
      const live = "select id from servers where seen_at > now() - interval '10 s' order by started_at"
      return (await database.query<{ id: string }>(live)).map(({ id }) => id)
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  }
}

it('live servers are listed with their properties, until they stop', async () => {
  await using test = await given()
  const one = await test.register(identity('one'))
  await test.register(identity('two'))
  const rows = await test.database.query(
    `select id, version, schema, host, pid, address, data_directory as "dataDirectory" from servers order by started_at`,
  )
  expect(rows).toEqual([identity('one'), identity('two')])
  await one.stop()
  expect(await test.ids()).toEqual(['two'])
})

it('a server renews its entry regularly, and removes expired ones', async () => {
  await using test = await given()
  await test.register(identity('one'))
  await test.database.query(
    `insert into servers (id, version, schema, host, pid, address, data_directory, seen_at)
     select 'dead', version, schema, host, pid, address, data_directory, now() - interval '31 s' from servers`,
  )
  const seen = () => test.database.query("select seen_at from servers where id = 'one'")
  const before = await seen()
  await expect.poll(seen).not.toEqual(before)
  await expect.poll(() => test.database.query('select id from servers')).toEqual([{ id: 'one' }])
})

it('a server with another data directory is refused with advice, beside a live server', async () => {
  await using test = await given()
  await test.register(identity('one'))
  await expect(test.register(identity('two', 'elsewhere'))).rejects.toThrow(
    'servers with different ones cannot share the work. Start this server on the same data directory, give it a ' +
      'separate database (DATABASE_URL), or stop the other one first.',
  )
  expect(await test.ids()).toEqual(['one'])
})

it('a server with another data directory replaces a killed server', async () => {
  await using test = await given()
  await test.database.query(
    `insert into servers (id, version, schema, host, pid, address, data_directory, seen_at)
     values ('dead', '1', '1', 'h', 1, '', 'data', now() - interval '9 s')`,
  )
  await test.register(identity('two', 'elsewhere'))
  expect(await test.ids()).toEqual(['two'])
})

it('a server whose long absence let one with another data directory begin is notified', async () => {
  await using test = await given()
  await test.register(identity('one'))
  await test.database.query(`update servers set id = 'two', data_directory = 'elsewhere' where id = 'one'`)
  await expect.poll(() => test.conflicts.length).toBeGreaterThan(0)
  expect(test.conflicts[0]?.message).toContain('cannot share the work')
})

it('a server does not lead beside a live server with another data directory', async () => {
  await using test = await given()
  await using directory = await temporaryDirectory()
  await test.register(identity('one'))
  await using other = candidate({
    id: 'two',
    dataDirectory: 'elsewhere',
    connection: { connectionString: test.database.url },
    epochDirectory: `${directory.path}/leader-epoch`,
  })
  await expect(other.ready).rejects.toThrow('cannot share the work')
})

it('the schema has one row for the leadership, before the first epoch', async () => {
  await using database = await testDatabase()
  const rows = await database.query('select epoch, holder, data_directory from leadership')
  expect(rows).toEqual([{ epoch: '0', holder: null, data_directory: null }])
  await expect(database.query('insert into leadership (epoch) values (1)')).rejects.toMatchObject({ code: '23505' })
})
