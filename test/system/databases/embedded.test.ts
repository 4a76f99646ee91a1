import { readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { Client } from '@fairlead/server/client'
import pg from 'pg'
import { describe, expect, it } from 'vitest'
import { connect, createdDatabase, engineName, query, untilDatabase } from '../../harness/databases.ts'
import { fairlead, processesIn, type ServerProcess, serverProcess, signal } from '../../harness/process.ts'
import { isRoot, temporaryDirectory } from '../../harness/temporary.ts'

/** Lists the databases and roles of users in the cluster of version 18, as an administrator. */
async function inCluster(dataDirectory: string): Promise<{ databases: string[]; roles: string[] }> {
  const host = join(dataDirectory, 'databases', '18', 'socket')
  const port = Number((await readdir(host)).find((name) => /^\.s\.PGSQL\.\d+$/.test(name))?.slice('.s.PGSQL.'.length))
  const client = new pg.Client({ host, port, user: 'fairlead', database: 'postgres' })
  await client.connect()
  try {
    const databases = await client.query<{ name: string }>(
      "select datname as name from pg_database where datname <> 'postgres' and not datistemplate order by 1",
    )
    const roles = await client.query<{ name: string }>(
      "select rolname as name from pg_roles where rolname !~ '^pg_' and rolname <> 'fairlead' order by 1",
    )
    return { databases: databases.rows.map(({ name }) => name), roles: roles.rows.map(({ name }) => name) }
  } finally {
    await client.end()
  }
}

async function ownCluster(dataDirectory: string, text: string): Promise<Record<string, unknown>[]> {
  const host = join(dataDirectory, 'postgres', 'socket')
  const client = new pg.Client({ host, port: 5432, user: 'fairlead', database: 'fairlead' })
  await client.connect()
  try {
    return (await client.query(text)).rows
  } finally {
    await client.end()
  }
}

async function prepared(dataDirectory: string): Promise<string> {
  const made = await fairlead(['keys', 'create', '--new', '--name', 'test', '--data-dir', dataDirectory])
  if (made.code !== 0) throw new Error(made.stderr)
  return made.stdout.trim()
}

const newProject = async (client: Client) =>
  (await client.projects.create({ body: { name: 'p', plan: 'enterprise' } })).id

const all = async (client: Client, project: string) =>
  (await client.databases.list({ params: { project_id: project } })).databases

async function untilAllAvailable(client: Client, project: string): Promise<void> {
  for (const { id } of await all(client, project)) await untilDatabase(client, project, id)
}

describe("the cluster of users' databases", () => {
  it('starts when it is needed, stops with the server, and has all its data at the next start', async () => {
    await using directory = await temporaryDirectory()
    const data = join(directory.path, 'data')
    const folder = join(data, 'databases')
    const key = await prepared(data)
    let address = ''
    let project = ''
    {
      await using server = await serverProcess(data)
      project = await newProject(server.clientFor(key))
      expect(await processesIn(folder)).toEqual([])
      const created = await createdDatabase(server.clientFor(key), project)
      address = created.connection_string
      await query(address, 'create table kept as select 1 as n')
      expect(await processesIn(folder)).not.toEqual([])
      if (isRoot) {
        const owner = async (path: string) => (await stat(join(data, path))).uid
        expect(await owner('databases/18/data')).toBe(49_999)
        expect(await owner('postgres/data')).toBe(40_000)
      }
    }
    expect(await processesIn(folder)).toEqual([])
    await using _ = await serverProcess(data)
    expect(await query(address, 'select n from kept')).toEqual([[1]])
  })

  it('is restarted when it ends unexpectedly', async () => {
    await using directory = await temporaryDirectory()
    const data = join(directory.path, 'data')
    const key = await prepared(data)
    await using server = await serverProcess(data)
    const project = await newProject(server.clientFor(key))
    const { connection_string } = await createdDatabase(server.clientFor(key), project)
    const [postmaster] = await processesIn(join(data, 'databases'))
    await using open = await connect(connection_string)
    const ended = new Promise((done) => open.once('end', done))
    signal(postmaster, 'SIGQUIT')
    await ended
    await server.waitForLog((line) => line['msg'] === 'PostgreSQL is back')
    expect(await query(connection_string, 'select 1')).toEqual([[1]])
    await createdDatabase(server.clientFor(key), project)
  })
})

describe('fifty provisionings', () => {
  it('survive kill -9 in their middle: each database exists once, and nothing else does', async () => {
    await using directory = await temporaryDirectory()
    const data = join(directory.path, 'data')
    const key = await prepared(data)
    let project = ''
    const addresses = new Map<string, string>()
    {
      const server = await serverProcess(data)
      const client = server.clientFor(key)
      project = await newProject(client)
      await Promise.all(
        Array.from({ length: 50 }, async (_, n) => {
          const { id, connection_string } = await client.databases.create({
            params: { project_id: project },
            body: { name: `db ${n}` },
          })
          addresses.set(id, connection_string)
        }),
      )
      await available(server, 10)
      await server.kill()
    }
    await using server = await serverProcess(data)
    const client = server.clientFor(key)
    await untilAllAvailable(client, project)
    const ids = [...addresses.keys()].sort()
    expect((await all(client, project)).map(({ id }) => id).sort()).toEqual(ids)
    const names = [...addresses.values()].map((address) => engineName({ connection_string: address })).sort()
    expect(await inCluster(data)).toEqual({ databases: names, roles: names })
    for (const address of addresses.values()) expect(await query(address, 'select 1')).toEqual([[1]])
    const events = await ownCluster(
      data,
      `select body::json -> 'data' ->> 'database_id' as id from events where type = 'database.available' order by 1`,
    )
    expect(events.map(({ id }) => id)).toEqual(ids)
    expect(await ownCluster(data, 'select version from database_clusters')).toEqual([{ version: '18' }])
  })
})

describe('deletions, snapshots and restorations', () => {
  it('survive kill -9 in their middle', async () => {
    await using directory = await temporaryDirectory()
    const data = join(directory.path, 'data')
    const key = await prepared(data)
    let project = ''
    const restored: string[] = []
    const deleted: string[] = []
    {
      const server = await serverProcess(data, { FAIRLEAD_DATABASE_RETENTION_DAYS: '0' })
      const client = server.clientFor(key)
      project = await newProject(client)
      const params = { project_id: project }
      for (let n = 0; n < 4; n++) {
        const { id, connection_string } = await createdDatabase(client, project)
        await query(connection_string, 'create table notes as select 1 as n')
        const snapshot = await client.snapshots.create({ params: { ...params, database_id: id } })
        for (;;) {
          const { status } = await client.snapshots.get({ params: { ...params, database_id: id, id: snapshot.id } })
          if (status === 'available') break
        }
        await query(connection_string, 'update notes set n = 2')
        if (n % 2 === 0) {
          restored.push(connection_string)
          await client.snapshots.restore({ params: { ...params, database_id: id, id: snapshot.id } })
        } else {
          deleted.push(id)
          await client.databases.delete({ params: { ...params, id } })
        }
      }
      await server.kill()
    }
    await using server = await serverProcess(data, { FAIRLEAD_DATABASE_RETENTION_DAYS: '0' })
    const client = server.clientFor(key)
    for (const id of deleted) {
      await untilDatabase(client, project, id, () => false).catch(({ code }) => expect(code).toBe('not_found'))
    }
    await untilAllAvailable(client, project)
    for (const address of restored) expect(await query(address, 'select n from notes')).toEqual([[1]])
    const names = restored.map((address) => engineName({ connection_string: address })).sort()
    const { databases, roles } = await inCluster(data)
    expect(roles).toEqual(names)
    expect(databases).toEqual(expect.arrayContaining(names))
    // The snapshots of the restored databases.
    expect(databases).toHaveLength(names.length + 2)
  })
})

async function available(server: ServerProcess, count: number): Promise<void> {
  await server.waitForLog(() => server.log.filter((line) => line['msg'] === 'database is available').length >= count)
}
