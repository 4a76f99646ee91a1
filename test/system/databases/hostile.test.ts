import { once } from 'node:events'
import { connect as connectSocket, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Created, connect, createdDatabase, engineName, query, takenSnapshot } from '../../harness/databases.ts'
import { type TestServer, testServer } from '../../harness/server.ts'

let server: TestServer
let victim: Created
let attacker: Created
let snapshot: string
beforeAll(async () => {
  server = await testServer()
  const project = async () => (await server.client.projects.create({ body: { name: 'p', plan: 'enterprise' } })).id
  const home = await project()
  victim = await createdDatabase(server.client, home)
  attacker = await createdDatabase(server.client, await project(), { name: 'attacker', plan: 'free' })
  await query(victim.connection_string, "create table secrets as select 'treasure' as word")
  const names = async () => (await query(attacker.connection_string, 'select datname from pg_database')).flat()
  const before = await names()
  await takenSnapshot(server.client, home, victim.id)
  snapshot = String((await names()).find((name) => !before.includes(name)))
})
afterAll(() => server[Symbol.asyncDispose]())

const untouched = async () =>
  expect(await query(victim.connection_string, 'select word from secrets')).toEqual([['treasure']])

/** Statements that must be refused, each run separately. `$victim`, `$self` and `$snapshot` stand for names. */
const corpus = {
  'programs and files of the server': [
    "copy (select 1) to program 'cat > /tmp/fairlead-was-here'",
    "create table lines (t text); copy lines from program 'id'",
    "create table lines (t text); copy lines from '/etc/passwd'",
    "copy (select 1) to '/tmp/fairlead-was-here'",
    "select pg_read_file('/etc/passwd')",
    "select pg_read_file('postgresql.conf')",
    "select pg_read_binary_file('global/1260')",
    "select pg_ls_dir('/')",
    "select pg_ls_dir('.')",
    'select pg_ls_waldir()',
    'select pg_ls_logdir()',
    "select pg_stat_file('/etc/passwd')",
    "select lo_import('/etc/passwd')",
    "select lo_export(1, '/tmp/fairlead-was-here')",
    'create extension file_fdw',
    'create extension adminpack',
    "create tablespace t location '/tmp'",
    'select pg_current_logfile()',
    'select * from pg_hba_file_rules',
    'select * from pg_file_settings',
  ],
  'code in the server': [
    'create extension plperl',
    'create extension pltcl',
    'create extension plpython3u',
    'create extension plperlu',
    'create extension pltclu',
    "create function f() returns int language c as '/lib/x86_64-linux-gnu/libc.so.6', 'system'",
    "create function f(cstring) returns int language internal as 'pg_read_file'",
    "load '/tmp/evil.so'",
    'create language evil handler plpgsql_call_handler',
    "set session_preload_libraries = '/tmp/evil'",
    "set local_preload_libraries = '/tmp/evil'; load '/tmp/evil'",
    'create event trigger t on ddl_command_start execute function f()',
    'create extension pageinspect',
    'create extension pg_surgery',
    'create extension pg_buffercache',
  ],
  'the network as seen from the server': [
    'create extension dblink',
    'create extension postgres_fdw',
    "create subscription s connection 'host=127.0.0.1' publication p",
    "select pg_create_physical_replication_slot('s')",
    "select pg_create_logical_replication_slot('s', 'pgoutput')",
  ],
  'other roles and rights': [
    'create role evil',
    'create user evil superuser',
    'create database evil',
    'alter role $self superuser',
    'alter role $self createdb',
    'alter role $self bypassrls',
    'alter role $self replication',
    'alter role $self connection limit -1',
    'alter role $self set temp_file_limit = -1',
    'set temp_file_limit = -1',
    "set log_min_messages = 'debug5'",
    'set session_replication_role = replica',
    "alter role $victim password 'mine'",
    "alter role fairlead password 'mine'",
    'alter role $victim nologin',
    'set role fairlead',
    'set role $victim',
    'set session authorization $victim',
    'grant pg_read_server_files to $self',
    'grant pg_execute_server_program to $self',
    'grant pg_monitor to $self',
    'grant $victim to $self',
    'grant fairlead to $self',
    'reassign owned by $victim to $self',
    'drop owned by $victim',
    'drop role $victim',
    'alter system set listen_addresses = $$*$$',
    'select pg_reload_conf()',
    'select pg_rotate_logfile()',
    'select pg_switch_wal()',
    'select pg_promote()',
    'checkpoint',
  ],
  'other databases': [
    'drop database $victim',
    'drop database $snapshot',
    'drop database postgres',
    'alter database $victim rename to mine',
    'alter database $victim owner to $self',
    'alter database $victim allow_connections false',
    'alter database $self rename to mine',
    'grant connect on database $victim to $self',
    'select * from $victim.public.secrets',
    "select pg_database_size('$victim')",
    'create table t (x int) tablespace pg_global',
  ],
  'the catalogue': [
    'select * from pg_authid',
    'select * from pg_shadow',
    'select * from pg_user_mapping',
    'update pg_database set datacl = null',
    'update pg_class set relowner = 10',
    'delete from pg_roles',
    'alter table pg_catalog.pg_class add column evil int',
    'create table pg_catalog.evil ()',
    'select * from pg_statistic',
  ],
}

describe.each(Object.entries(corpus))('a hostile tenant gets nothing of %s', (_, statements) => {
  it.each(statements)('%s', async (statement) => {
    const text = statement
      .replaceAll('$victim', engineName(victim))
      .replaceAll('$self', engineName(attacker))
      .replaceAll('$snapshot', snapshot)
    await expect(query(attacker.connection_string, text)).rejects.toMatchObject({ severity: 'ERROR' })
    await untouched()
  })
})

describe('a hostile tenant', () => {
  it('can connect to no other database', async () => {
    const own = new URL(attacker.connection_string)
    for (const database of [engineName(victim), snapshot, 'postgres', 'template1', 'template0', 'fairlead']) {
      own.pathname = `/${database}`
      await expect(connect(own.href), database).rejects.toMatchObject({ severity: 'FATAL', code: '28000' })
    }
  })

  it('can log in as no other role', async () => {
    const address = new URL(attacker.connection_string)
    for (const [user, database] of [
      [engineName(victim), engineName(victim)],
      ['fairlead', 'fairlead'],
      ['fairlead', 'postgres'],
    ] as const) {
      address.username = user
      address.pathname = `/${database}`
      await expect(connect(address.href), user).rejects.toMatchObject({ severity: 'FATAL' })
    }
  })

  it("cannot connect to another's database even with a grant", async () => {
    await query(victim.connection_string, `grant connect on database ${engineName(victim)} to public`)
    const address = new URL(attacker.connection_string)
    address.pathname = `/${engineName(victim)}`
    await expect(connect(address.href)).rejects.toMatchObject({ code: '28000' })
  })

  it('cannot stream the write-ahead log', async () => {
    const client = new pg.Client({
      connectionString: attacker.connection_string,
      replication: 'true',
    } as pg.ClientConfig)
    client.on('error', () => undefined)
    await expect(client.connect()).rejects.toMatchObject({ severity: 'FATAL' })
  })

  it('sees neither the statements nor the addresses of others, and cannot end their sessions', async () => {
    await using busy = await connect(victim.connection_string)
    const asking = busy.query("select 'treasure', pg_sleep(1)")
    const { rows } = await (await connect(victim.connection_string)).query(
      "select pid from pg_stat_activity where query like '%pg_sleep(1)' and pid <> pg_backend_pid()",
    )
    const pid = rows[0]?.pid ?? 0
    for (const others of [`pid = ${pid}`, 'datname is null', 'datname <> current_database()']) {
      expect(await query(attacker.connection_string, `select pid from pg_stat_activity where ${others}`)).toEqual([])
    }
    for (const end of ['pg_terminate_backend', 'pg_cancel_backend']) {
      await expect(query(attacker.connection_string, `select ${end}(${pid})`)).rejects.toMatchObject({ code: '42501' })
    }
    await asking
  })

  it('gets no more connections than its plan allows, and others still get theirs', async () => {
    await using cleanup = new AsyncDisposableStack()
    const open = async () => cleanup.use(await connect(attacker.connection_string))
    // Connects one after another: PostgreSQL counts connections that are being opened, so it may refuse too many
    // concurrent ones. It may also count closed sessions and refused attempts for a moment.
    for (let count = 0; count < 10; ) {
      const refusal = await open().then(
        () => undefined,
        (error: unknown) => error,
      )
      if (refusal === undefined) count++
      else {
        expect(refusal).toMatchObject({ code: '53300' })
        await sleep(50)
      }
    }
    for (const each of await Promise.allSettled(Array.from({ length: 30 }, open))) {
      expect(each).toMatchObject({ status: 'rejected', reason: { code: '53300' } })
    }
    await untouched()
  })

  it('cannot lock others out with connections that send nothing', async () => {
    const { hostname, port } = new URL(attacker.connection_string)
    const sockets: Socket[] = []
    try {
      for (let n = 0; n < 200; n++) {
        const socket = connectSocket(Number(port), hostname)
        socket.on('error', () => undefined)
        await once(socket, 'connect')
        sockets.push(socket)
      }
      await untouched()
    } finally {
      for (const socket of sockets) socket.destroy()
    }
  })

  it('loses its sessions when it takes all locks, and others can continue', async () => {
    const flood = 'do $$ begin for n in 1..10000000 loop perform pg_advisory_lock(n); end loop; end $$'
    const floods = await Promise.allSettled([1, 2, 3].map(() => keepAsking(attacker.connection_string, flood)))
    expect(floods.some((each) => each.status === 'rejected' && each.reason.code === '57P01')).toBe(true)
    for (;;) {
      const answer = await query(victim.connection_string, 'select word from secrets').catch(({ code }) => code)
      if (answer !== '53200') break
      await sleep(50)
    }
    await untouched()
  })

  it.runIf(process.platform === 'linux')(
    'cannot take more memory than a session may, nor end sessions of others by trying',
    async () => {
      await using witness = await connect(victim.connection_string)
      const hog =
        "set work_mem = '2GB'; select length(string_agg(repeat('x', 1000000), '')) from generate_series(1, 900)"
      await expect(query(attacker.connection_string, hog)).rejects.toMatchObject({ code: '53200' })
      expect((await witness.query('select word from secrets')).rows).toEqual([{ word: 'treasure' }])
    },
  )

  it('cannot fill the disk with temporary files', async () => {
    const spill =
      "set work_mem = '64kB'; select count(*) from (select g, repeat('x', 500) t from generate_series(1, 400000) g order by t, g desc offset 1) s"
    await expect(query(attacker.connection_string, spill)).rejects.toMatchObject({ code: '53400' })
  })
})

/** Keeps all acquired locks and takes more, until its session is ended. */
async function keepAsking(connectionString: string, text: string): Promise<never> {
  await using client = await connect(connectionString)
  for (;;) {
    await client.query(text).catch((error: { code?: string }) => {
      // out_of_memory: all locks are taken. The session keeps the statement's locks.
      if (error.code !== '53200') throw error
    })
  }
}
