import { existsSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from '@fairlead/server/client'
import { describe, expect, it } from 'vitest'
import { connect, createdDatabase, engineName, query, takenSnapshot, untilDatabase } from '../../harness/databases.ts'
import { postgresByHand } from '../../harness/postgres-by-hand.ts'
import { ownServer } from '../../harness/server.ts'

/** The system's own PostgreSQL, in the folder where Debian and its derivatives install it. */
const systemPrograms = ['15', '16', '17'].map((major) => `/usr/lib/postgresql/${major}/bin`).find(existsSync)

const servers: { name: string; programs?: string }[] = [
  { name: 'the shipped PostgreSQL, started by hand' },
  ...(systemPrograms === undefined ? [] : [{ name: "the system's own PostgreSQL", programs: systemPrograms }]),
]

describe.each(servers)("in an operator's server ($name)", ({ programs }) => {
  it('databases work as in the embedded cluster', async () => {
    await using operator = await postgresByHand(programs)
    const [[version]] = (await operator.query('select current_setting($$server_version_num$$)::int / 10000')) as [
      [number],
    ]
    const own = new URL(operator.url)
    await using server = await ownServer({
      FAIRLEAD_DATABASES_URL: operator.url,
      FAIRLEAD_DATABASE_RETENTION_DAYS: '0',
    })
    const project = (await server.client.projects.create({ body: { name: 'p' } })).id
    const one = await createdDatabase(server.client, project, { name: 'one' })
    const two = await createdDatabase(server.client, project, { name: 'two' })
    expect(one.version).toBe(String(version))
    expect(new URL(one.connection_string).host).toBe(own.host)
    await query(one.connection_string, 'create table notes as select 1 as n')

    const address = new URL(two.connection_string)
    address.pathname = `/${engineName(one)}`
    await expect(connect(address.href)).rejects.toMatchObject({ code: '42501' })

    const snapshot = await takenSnapshot(server.client, project, one.id)
    await query(one.connection_string, 'update notes set n = 2')
    await server.client.snapshots.restore({ params: { project_id: project, database_id: one.id, id: snapshot } })
    await untilDatabase(server.client, project, one.id)
    expect(await query(one.connection_string, 'select n from notes')).toEqual([[1]])

    for (const { id } of [one, two]) {
      await server.client.databases.delete({ params: { project_id: project, id } })
      const gone = untilDatabase(server.client, project, id, () => false)
      await expect(gone).rejects.toMatchObject({ code: 'not_found' })
    }
    expect(await operator.query("select from pg_database where datname ~ '_|^.{26}$'")).toEqual([])
    expect(await operator.query("select from pg_roles where rolname ~ '^.{26}$'")).toEqual([])
  })

  it('an administrator needs no superuser rights', async () => {
    await using operator = await postgresByHand(programs)
    await operator.query("create role helper login createdb createrole password 'helper'")
    await operator.query('grant pg_signal_backend to helper')
    const url = new URL(operator.url)
    url.username = 'helper'
    url.password = 'helper'
    await using server = await ownServer({ FAIRLEAD_DATABASES_URL: url.href })
    const project = (await server.client.projects.create({ body: { name: 'p' } })).id
    const { id, connection_string } = await createdDatabase(server.client, project)
    expect(await query(connection_string, 'select 1')).toEqual([[1]])
    await server.client.databases.rotatePassword({ params: { project_id: project, id } })
    await server.client.databases.delete({ params: { project_id: project, id } })
    await server.client.databases.restore({ params: { project_id: project, id } })
    await untilDatabase(server.client, project, id)
  })
})

it('a database that cannot be created fails with a reason, is announced as failed, and can be deleted', async () => {
  await using operator = await postgresByHand()
  await operator.query("create role helper login createdb createrole password 'helper'")
  const url = new URL(operator.url)
  url.username = 'helper'
  url.password = 'helper'
  await using server = await ownServer({ FAIRLEAD_DATABASES_URL: url.href })
  await operator.query('alter role helper nocreatedb')
  const project = (await server.client.projects.create({ body: { name: 'p' } })).id
  const params = { project_id: project }
  const { id } = await server.client.databases.create({ params, body: { name: 'db' } })
  // Pretends that the job has been retried for an hour.
  await server.database.query("update databases set provisioning_since = now() - interval '1 hour' where id = $1", [id])
  const failure = { code: 'server_error', message: expect.stringContaining('log') }
  const found = await untilFailed(server.client, project, id)
  expect(found).toMatchObject({ status: 'failed', failure, size_bytes: null })
  const events = await server.database.query<{ data: unknown }>(
    "select body::json -> 'data' as data from events where type = 'database.failed'",
  )
  expect(events).toEqual([{ data: { database_id: id, project_id: project, failure } }])

  await server.client.databases.delete({ params: { ...params, id } })
  await expect(untilDatabase(server.client, project, id, () => false)).rejects.toMatchObject({ code: 'not_found' })
  expect(await operator.query("select rolname from pg_roles where rolname ~ '^.{26}$'")).toEqual([])
})

async function untilFailed(client: Client, projectId: string, id: string) {
  for (;;) {
    const database = await client.databases.get({ params: { project_id: projectId, id } })
    if (database.status === 'failed') return database
    await sleep(50)
  }
}

it("an unreachable operator's server is reported to the client that creates a database", async () => {
  await using server = await ownServer({ FAIRLEAD_DATABASES_URL: 'postgresql://admin:secret@127.0.0.1:1/postgres' })
  const project = (await server.client.projects.create({ body: { name: 'p' } })).id
  const client = server.clientFor(server.apiKey)
  const creating = fetch(`${server.baseUrl}/projects/${project}/databases`, {
    method: 'POST',
    headers: { authorization: `Bearer ${server.apiKey}`, 'content-type': 'application/json' },
    body: JSON.stringify({ name: 'db' }),
  })
  expect(await (await creating).json()).toMatchObject({
    error: { code: 'server_error', message: expect.stringContaining('cannot be reached') },
  })
  expect((await client.databases.list({ params: { project_id: project } })).databases).toEqual([])
  expect(JSON.stringify(server.log)).not.toContain('secret@')
})
