import type pg from 'pg'
import { expect } from 'vitest'
import { attacks } from '../../harness/attacks/attack.ts'
import { connect, engineName, query } from '../../harness/databases.ts'
import { opponents } from './opponents.ts'

/** Locks the rows of the role and of its settings in the catalogue. */
const holdRole = async (client: pg.Client, name: string) => {
  await client.query('begin')
  await client.query(`alter role ${name} set work_mem = '1MB'`)
  await client.query(`alter role ${name} in database ${name} set default_transaction_read_only = off`)
  await client.query(`alter role ${name} password 'mine'`)
}

const elapsed = async (work: () => Promise<unknown>): Promise<number> => {
  const begin = performance.now()
  await work()
  return performance.now() - begin
}

attacks({}, (attack) => {
  attack(
    {
      id: 'database-open-transaction',
      topic: 'Databases',
      held: 'An open transaction in a database delays neither changes of that database nor requests of others',
    },
    async (server) => {
      const { attacker, victim } = server
      await using databases = await opponents(server)
      const { id, connection_string } = databases.own
      const name = engineName(databases.own)
      const params = { project_id: attacker.project, id }
      // More than the server's transactions for requests.
      const rotate = () => attacker.client.databases.rotatePassword({ params }).catch(() => undefined)
      await using holder = await connect(connection_string)
      await holdRole(holder, name)
      const rotations = Array.from({ length: 15 }, rotate)
      const ask = () => victim.client.projects.update({ params: { project_id: victim.project }, body: { name: 'q' } })
      expect(await elapsed(ask)).toBeLessThan(1_500)
      await Promise.all(rotations)
      const { connection_string: fresh } = await attacker.client.databases.rotatePassword({ params })
      await using again = await connect(fresh)
      await holdRole(again, name)
      const took = await elapsed(() => attacker.client.databases.rotatePassword({ params }))
      expect(took).toBeLessThan(5_000)
    },
  )

  attack(
    {
      id: 'database-notifications',
      topic: 'Databases',
      held: 'Notifications that nobody reads do not fill the queue that all databases share',
    },
    async (server) => {
      await using databases = await opponents(server)
      await using listener = await connect(databases.own.connection_string)
      await listener.query('listen flood')
      await listener.query('begin')
      await listener.query('select 1')
      await using sender = await connect(databases.own.connection_string)
      const flood = `do $$ begin for n in 1..20000 loop perform pg_notify('flood', n || repeat('x', 7900)); end loop; end $$`
      // 160 MB each time, of a queue of 8 GB unless a limit is set.
      const send = async () => {
        for (let n = 0; n < 6; n++) await sender.query(flood).catch(() => undefined)
      }
      await send()
      const usage = async () =>
        Number((await query(databases.foreign.connection_string, 'select pg_notification_queue_usage()'))[0]?.[0])
      await expect.poll(usage, { timeout: 20_000, interval: 200 }).toBeLessThan(0.02)
      await query(databases.foreign.connection_string, "select pg_notify('news', 'arrives')")
      await expect(listener.query('select 1')).rejects.toThrow()
    },
  )

  attack(
    {
      id: 'database-views',
      topic: 'Databases',
      held: 'A database shows no sessions, locks, settings, comments or ids of others; names of roles and databases, which PostgreSQL shows to all, are random',
    },
    async (server) => {
      await using databases = await opponents(server)
      const { own, foreign } = databases
      const name = engineName(foreign)
      await using victim = await connect(foreign.connection_string)
      await victim.query("set application_name = 'treasure'")
      await victim.query('select pg_advisory_lock(4711)')
      await victim.query(`alter role ${name} set search_path = 'treasure'`)
      await victim.query(`alter role ${name} in database ${name} set search_path = 'treasure'`)
      await victim.query(`alter database ${name} set search_path = 'treasure'`)
      await victim.query(`comment on database ${name} is 'treasure'`)
      await using spy = await connect(own.connection_string)
      const seen = async (text: string) => {
        const rows = await spy.query({ text, rowMode: 'array' }).then(
          (found) => JSON.stringify(found.rows),
          ({ code }) => code as string,
        )
        return rows.includes('treasure') || rows.includes(name) || rows.includes('4711') ? `${text}: ${rows}` : ''
      }
      const attempts = [
        'select * from pg_stat_activity',
        'select * from pg_stat_get_activity(null)',
        'select s.*, pg_stat_get_backend_dbid(s), pg_stat_get_backend_userid(s) from pg_stat_get_backend_idset() s',
        'select * from pg_locks',
        'select * from pg_lock_status()',
        'select * from pg_shdescription',
        `select shobj_description(oid, 'pg_database') from pg_database`,
        'select * from pg_db_role_setting',
        'select * from pg_roles',
        'select * from pg_user',
        'select * from pg_group',
        'select * from pg_stat_database',
        'select * from pg_shseclabel',
        'select * from information_schema.applicable_roles',
      ]
      // PostgreSQL shows the names of roles and databases to everybody.
      const names = 'select datname, pg_get_userbyid(o::oid) from pg_database, generate_series(1, 20000) o'
      const listed = JSON.stringify(await query(own.connection_string, names))
      expect(listed).toContain(name)
      for (const id of [foreign.id, server.victim.project]) expect(listed).not.toContain(id.split('_')[1])
      const shown: string[] = []
      for (const attempt of attempts) shown.push(await seen(attempt))
      expect(shown.filter((each) => each !== '')).toEqual([])
    },
  )
})
