import { sql } from 'kysely'
import { pino } from 'pino'
import { describe, expect, it } from 'vitest'
import { type Database, migrate, openDatabase } from '../../../server/src/platform/database.ts'
import { migrations } from '../../../server/src/platform/migrations/index.ts'
import { type Migrations, newestMigration } from '../../../server/src/platform/migrations/schema.ts'
import { prepareSchema } from '../../../server/src/platform/schema.ts'
import { testDatabase } from '../../harness/database.ts'
import { connect } from '../../harness/databases.ts'
import { fairlead } from '../../harness/process.ts'
import { ownServer } from '../../harness/server.ts'
import { upload } from '../../harness/storage.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

/** A version after this one, whose migration only adds: a table, a column and an index. */
const next: Migrations = {
  ...migrations,
  '0900-next': {
    async up(db) {
      await sql`create table next_things (id text primary key, project_id text references projects)`.execute(db)
      await sql`alter table projects add column next_color text not null default 'blue'`.execute(db)
      await sql`create index next_color on projects (next_color)`.execute(db)
    },
  },
}

/** A version after the next, which removes what the next no longer uses. */
const contracted: Migrations = {
  ...next,
  '0901-contract': {
    oldestServer: '0900-next',
    async up(db) {
      await sql`alter table projects drop column next_color`.execute(db)
    },
  },
}

const newest = newestMigration(migrations)
const tooOld = (migration: string) =>
  `The database is newer than this version of Fairlead: it has the migration ${migration}.`

/** A version whose second new migration cannot be applied. */
const failing: Migrations = {
  ...next,
  '0901-broken': {
    async up(db) {
      await sql`alter table things_that_are_not_there add column color text`.execute(db)
    },
  },
}

/** Opens a database of a test, as a server or a command does. */
async function opened(template?: string) {
  await using cleanup = new AsyncDisposableStack()
  const database = cleanup.use(await testDatabase(template))
  const handle = openDatabase({ connectionString: database.url, max: 2 }, pino({ level: 'silent' }))
  cleanup.defer(() => handle.close())
  const owned = cleanup.move()
  const prepare = (program: 'server' | 'command', known = migrations, db: Database = handle.db) =>
    prepareSchema({
      db,
      migrations: known,
      logger: pino({ level: 'silent' }),
      signal: AbortSignal.timeout(60_000),
      program,
    })
  return { database, db: handle.db, prepare, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}

/** Writes the row of a running server with this schema, and keeps it alive. */
async function runningServer(db: Database, schema: string): Promise<void> {
  const columns = await sql<{ name: string }>`select column_name as name from information_schema.columns
    where table_name = 'servers'`.execute(db)
  if (columns.rows.length > 0) await sql`drop table servers cascade`.execute(db)
  await sql`create table servers (id text, version text, schema text, host text, pid integer,
    seen_at timestamptz default now())`.execute(db)
  await sql`insert into servers (id, version, schema, host, pid, seen_at)
    values ('server-1', '1.2.3', ${schema}, 'earth', 42, now() + interval '9 seconds')`.execute(db)
}

it('a failing migration is named, and the migrations before it are rolled back', async () => {
  await using given = await opened()
  await migrate(given.db, migrations)
  await expect(migrate(given.db, failing)).rejects.toThrow(
    'The migration 0901-broken failed, and the schema is as before: relation "things_that_are_not_there" does not exist',
  )
  expect(await given.database.query("select to_regclass('next_things') as found")).toEqual([{ found: null }])
})

describe('a schema of a newer version', () => {
  it('is refused, and left as it is, by a version that does not say it can work on it', async () => {
    await using given = await opened()
    await migrate(given.db, next)
    await expect(migrate(given.db, migrations)).rejects.toThrow(tooOld('0900-next'))
    await migrate(given.db, next)
  })

  it('that only adds is compatible with this version', async () => {
    await using server = await ownServer()
    const handle = openDatabase({ connectionString: server.database.url, max: 2 }, pino({ level: 'silent' }))
    await migrate(handle.db, next)
    await handle.close()
    // Works under a running server, and for a server that starts on it.
    const before = await server.client.projects.create({ body: { name: 'before' } })
    await server.restart()
    const after = await server.client.projects.create({ body: { name: 'after' } })
    const { projects } = await server.client.projects.list({})
    expect(projects.map(({ id }) => id)).toEqual([after.id, before.id])
    const file = await upload(server.client, after.id, 'a.txt', 'text')
    expect(file.size).toBe(4)
    await server.client.projects.delete({ params: { project_id: before.id } })
    expect(server.log.map(({ msg }) => msg)).toContain('the schema belongs to a newer version')
  })

  it('that removes something is refused to the versions that use it, and to no other', async () => {
    await using given = await opened()
    await migrate(given.db, contracted)
    await expect(given.prepare('server')).rejects.toThrow(tooOld('0901-contract'))
    await expect(given.prepare('command')).rejects.toThrow('Versions that know 0900-next can work on it.')
    await given.prepare('server', next)
  })

  it('is refused with this message by the commands, even with DATABASE_URL', async () => {
    await using given = await opened()
    await using directory = await temporaryDirectory()
    await migrate(given.db, contracted)
    const environment = { DATABASE_URL: given.database.url, FAIRLEAD_DATA_DIR: directory.path }
    const result = await fairlead(['keys', 'list'], environment)
    expect(result.stderr).toMatch(/^fairlead: The database is newer than this version of Fairlead/)
    expect(result.code).toBe(1)
  })
})

describe('a migration', () => {
  it('that only adds runs beside an older server', async () => {
    await using given = await opened()
    await runningServer(given.db, newest)
    await given.prepare('server', next)
    await expect(
      given.db.withTables<{ projects: { next_color: string } }>().selectFrom('projects').select('next_color').execute(),
    ).resolves.toEqual([])
  })

  it('that removes something waits for the servers that use it, and names them', async () => {
    await using given = await opened()
    await runningServer(given.db, newest)
    const jump = given.prepare('server', contracted)
    await expect(jump).rejects.toThrow(
      `a running server would break (server-1, version 1.2.3, host earth, pid 42, schema ${newest}). Update or stop that server first.`,
    )
    // Nothing of it was applied.
    await given.prepare('server')
    await sql`delete from servers`.execute(given.db)
    await given.prepare('server', contracted)
  })

  it('begins once the last server that uses the removed object has ended', async () => {
    await using given = await opened()
    await runningServer(given.db, newest)
    const jump = given.prepare('server', contracted)
    await sql`update servers set seen_at = now() - interval '8 seconds'`.execute(given.db)
    await jump
  })

  it('is never run by a command while a server runs', async () => {
    await using given = await opened()
    await runningServer(given.db, newest)
    await expect(given.prepare('command', next)).rejects.toThrow('Update the server first')
    await given.prepare('command')
    await sql`delete from servers`.execute(given.db)
    await given.prepare('command', next)
  })

  it('is never run by a command while a server without a row runs', async () => {
    await using given = await opened()
    await using holder = await connect(`${given.database.url}&application_name=fairlead%20leadership`)
    await holder.query('select pg_advisory_lock(1)')
    await expect(given.prepare('command', next)).rejects.toThrow('Update the server first')
    await holder.query('select pg_advisory_unlock(1)')
    await given.prepare('command', next)
  })

  it('by an older version gives way to that of a newer one at the same time', async () => {
    await using given = await opened('template1')
    await Promise.all([given.prepare('server'), given.prepare('server', next)])
    await expect(given.prepare('server')).resolves.toBeUndefined()
  })
})
