import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { promisify } from 'node:util'
import pg from 'pg'
import { describe, expect, it } from 'vitest'
import { databaseLimits } from '../../../server/src/features/databases/limits.ts'
import { closeCatalogue } from '../../../server/src/features/databases/postgres/catalogue.ts'
import { createInstance } from '../../../server/src/features/databases/postgres/engine.ts'
import { connect, query } from '../../harness/databases.ts'
import { postgresByHand } from '../../harness/postgres-by-hand.ts'

const [own, foreign] = ['abcdefghijklmnopqrstuvwxyz', 'bcdefghijklmnopqrstuvwxyza'] as const
const { signal } = new AbortController()
const limits = databaseLimits({ database_gb: 1, memory_mb: 512 })

/** The system's PostgreSQL, whose `pg_dump` has the same version. */
const systemPrograms = ['15', '16', '17'].map((major) => `/usr/lib/postgresql/${major}/bin`).find(existsSync)

/** An instance with two users' databases. */
async function instanceByHand(programs?: string) {
  await using cleanup = new AsyncDisposableStack()
  const operator = cleanup.use(await postgresByHand(programs))
  for (const name of [own, foreign]) {
    await operator.query(`create role ${name} login password 'password'`)
    await operator.query(`create database ${name} owner ${name} template template0`)
    await operator.query(`revoke all on database ${name} from public`)
  }
  const instance = createInstance({ connectionString: operator.url }, () => undefined)
  cleanup.defer(() => instance.close())
  const addressOf = (name: string) => {
    const address = new URL(operator.url)
    address.username = name
    address.password = 'password'
    address.pathname = `/${name}`
    return address.href
  }
  const owned = cleanup.move()
  return { operator, instance, addressOf, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}

it('sessions end that are idle in a transaction, too old or idle for too long; others do not', async () => {
  await using given = await instanceByHand()
  const { operator, instance, addressOf } = given
  const sessions = () => operator.query("select pid from pg_stat_activity where usename ~ '^[a-z]{26}$'")
  const endedBy = async (statement: string, bounds: object) => {
    // The earlier sessions end in a moment.
    await expect.poll(sessions).toEqual([])
    await using client = await connect(addressOf(own))
    await client.query(statement)
    const none = { idleInTransaction: 1e6, transaction: 1e6, idle: 1e6 }
    expect(await instance.sessions.endStale(none)).toEqual([])
    return await instance.sessions.endStale({ ...none, ...bounds })
  }
  expect(await endedBy('begin', { idleInTransaction: 0 })).toEqual([own])
  expect(await endedBy('begin', { idle: 0 })).toEqual([])
  expect(await endedBy('begin', { transaction: 0 })).toEqual([own])
  expect(await endedBy('select 1', { idleInTransaction: 0, transaction: 0 })).toEqual([])
  expect(await endedBy('select 1', { idle: 0 })).toEqual([own])
})

it('an administrator who waits for a lock ends users’ sessions that hold it, and no others', async () => {
  await using given = await instanceByHand()
  const { operator, instance, addressOf } = given
  await using holder = await connect(addressOf(own))
  await holder.query(`begin; alter role ${own} set work_mem = '1MB'`)
  await using other = await connect(addressOf(foreign))
  await other.query('begin')
  await instance.roles.ensure({ name: own, verifier: 'password', limits }, signal)
  await expect(holder.query('select 1')).rejects.toThrow()
  expect((await other.query('select 1 as one')).rows).toEqual([{ one: 1 }])

  await using administrator = await connect(operator.url)
  await administrator.query(`begin; alter role ${own} set work_mem = '1MB'`)
  await expect(instance.roles.ensure({ name: own, verifier: 'password', limits }, signal)).rejects.toMatchObject({
    code: '55P03',
  })
  await administrator.query('commit')
})

describe.each([
  { name: 'the shipped PostgreSQL', programs: undefined },
  ...(systemPrograms === undefined ? [] : [{ name: "the system's own PostgreSQL", programs: systemPrograms }]),
])('the catalogue of a database in $name', ({ programs }) => {
  it('shows what is its own, can be closed again, and works for queries that tools ask', async () => {
    await using given = await instanceByHand(programs)
    const { instance, addressOf } = given
    await instance.closeCatalogue(own, signal)
    await instance.closeCatalogue(own, signal)
    await using neighbour = await connect(addressOf(foreign))
    await neighbour.query('select pg_advisory_lock(4711)')
    await using client = await connect(addressOf(own))
    await client.query('create table notes (id serial primary key, text text not null)')
    await client.query("comment on table notes is 'a comment'; select pg_advisory_lock(1)")
    const ask = async (text: string) => (await client.query({ text, rowMode: 'array' })).rows
    expect(await ask('select usename from pg_stat_activity where pid = pg_backend_pid()')).toEqual([[own]])
    expect(await ask('select distinct datname from pg_stat_activity')).toEqual([[own]])
    expect(await ask("select objid::int from pg_locks where locktype = 'advisory'")).toEqual([[1]])
    expect(await ask("select rolname from pg_roles where rolname ~ '^[a-z]{26}$'")).toEqual([[own]])
    expect(await ask('select datname from pg_stat_database')).toEqual([[own]])
    await client.query(`comment on database ${own} is 'mine'`)
    expect(
      await ask(
        "select shobj_description(oid, 'pg_database') from pg_database where datname ~ '^[a-z]{26}$' order by oid",
      ),
    ).toEqual([['mine'], [null]])
    // The queries of knex, Prisma, Django, SQLAlchemy and drivers.
    for (const question of [
      'select * from information_schema.columns',
      'select * from information_schema.table_privileges',
      'select * from information_schema.referential_constraints',
      'select c.relname, pg_get_userbyid(c.relowner), obj_description(c.oid) from pg_class c join pg_namespace n on n.oid = c.relnamespace',
      'select a.attname, format_type(a.atttypid, a.atttypmod), pg_get_expr(d.adbin, d.adrelid) from pg_attribute a left join pg_attrdef d on (a.attrelid, a.attnum) = (d.adrelid, d.adnum)',
      'select conname, pg_get_constraintdef(oid, true) from pg_constraint',
      'select indexname, indexdef from pg_indexes',
      'select t.oid, t.typname, t.typtype, r.rngsubtype from pg_type t left join pg_range r on r.rngtypid = t.oid',
      'select datname, pg_encoding_to_char(encoding), datcollate from pg_database',
      'select extname, extversion from pg_extension',
      'select * from pg_stat_user_tables',
      'select * from pg_settings',
      'select version(), current_database(), current_user',
    ]) {
      await expect(client.query(question), question).resolves.toBeDefined()
    }
  })

  it('leaves no trace in a dump, which another server accepts', async () => {
    if (programs === undefined) return
    await using given = await instanceByHand(programs)
    const { instance, addressOf } = given
    await query(addressOf(own), 'create table notes as select 1 as n')
    const dump = async () => (await promisify(execFile)(`${programs}/pg_dump`, ['--inserts', addressOf(own)])).stdout
    const before = await dump()
    await instance.closeCatalogue(own, signal)
    const restrictionKey = /^\\(un)?restrict .*$/gm
    expect((await dump()).replaceAll(restrictionKey, '')).toBe(before.replaceAll(restrictionKey, ''))
    const listed = promisify(execFile)(`${programs}/psql`, [addressOf(own), '-c', '\\l+', '-c', '\\d', '-c', '\\du+'])
    expect((await listed).stdout).toContain('notes')
  })
})

it('a new database of the server’s cluster is a copy of one with a closed catalogue', async () => {
  await using operator = await postgresByHand()
  const instance = createInstance({ connectionString: operator.url }, () => undefined, { maxUserSessions: 10 })
  await using _ = { [Symbol.asyncDispose]: () => instance.close() }
  const templates = () => operator.query("select datname from pg_database where datname ~ '^fairlead_' order by 1")
  const isClosed = (name: string) => {
    const address = new URL(operator.url)
    address.pathname = `/${name}`
    return query(address.href, "select not has_function_privilege('public', 'pg_lock_status()', 'execute')")
  }
  const made = async (name: string) => {
    await instance.roles.ensure({ name, verifier: 'password', limits }, signal)
    const isNew = await instance.databases.ensure(name, null, signal)
    await instance.roles.admit(name, [name], signal)
    return isNew
  }

  await operator.query('create database fairlead_empty_00000000')
  expect(await made(own)).toBe(true)
  expect(await isClosed(own)).toEqual([[true]])
  const [[template]] = (await templates()) as [[string]]
  expect(await templates()).toEqual([[expect.not.stringMatching('00000000')]])
  expect(await instance.databases.ensure(own, null, signal)).toBe(false)

  // As after the death of a server before the template was ready.
  await operator.query(`alter database ${template} is_template false`)
  expect(await made(foreign)).toBe(true)
  expect(await isClosed(foreign)).toEqual([[true]])
  expect(
    await operator.query("select datname from pg_database where datistemplate and datname ~ '^fairlead_'"),
  ).toEqual([[template]])
})

it('closing a catalogue needs a superuser', async () => {
  await using given = await instanceByHand()
  const client = new pg.Client(given.addressOf(own))
  await client.connect()
  await expect(client.query(closeCatalogue)).rejects.toMatchObject({ code: '42501' })
  await client.end()
})
