import { setTimeout as sleep } from 'node:timers/promises'
import type { BodyInput, Client, ResponseBody } from '@fairlead/server/client'
import pg from 'pg'

export type Detail = ResponseBody<'databases.get'>
export type Created = ResponseBody<'databases.create'>

/** Polls a database until it has this state; rejects when the database has failed. */
export async function untilDatabase(
  client: Client,
  projectId: string,
  id: string,
  fits: (database: Detail) => boolean = ({ status }) => status === 'available',
): Promise<Detail> {
  for (;;) {
    const database = await client.databases.get({ params: { project_id: projectId, id } })
    if (fits(database)) return database
    if (database.status === 'failed') throw new Error(`the database has failed: ${JSON.stringify(database.failure)}`)
    await sleep(25)
  }
}

/** Creates a database and waits until it is available. */
export async function createdDatabase(
  client: Client,
  projectId: string,
  body: BodyInput<'databases.create'> = { name: 'db' },
): Promise<Created> {
  const created = await client.databases.create({ params: { project_id: projectId }, body })
  await untilDatabase(client, projectId, created.id)
  return created
}

/** Takes a snapshot, waits until it is available, and returns its id. */
export async function takenSnapshot(client: Client, projectId: string, databaseId: string): Promise<string> {
  const params = { project_id: projectId, database_id: databaseId }
  const { id } = await client.snapshots.create({ params })
  for (;;) {
    const snapshot = await client.snapshots.get({ params: { ...params, id } })
    if (snapshot.status === 'available') return id
    if (snapshot.status === 'failed') throw new Error(`the snapshot has failed: ${JSON.stringify(snapshot.failure)}`)
    await sleep(25)
  }
}

/** Returns the name of a database and of its role in PostgreSQL. */
export const engineName = ({ connection_string }: { readonly connection_string: string }): string =>
  new URL(connection_string).username

/** Connects as an app would. */
export async function connect(connectionString: string): Promise<pg.Client & AsyncDisposable> {
  const client = new pg.Client({ connectionString, connectionTimeoutMillis: 10_000 })
  client.on('error', () => undefined)
  await client.connect()
  return Object.assign(client, { [Symbol.asyncDispose]: () => client.end() })
}

/** Runs one query on a new connection, and returns the rows as arrays of values. */
export async function query(connectionString: string, text: string): Promise<unknown[][]> {
  await using client = await connect(connectionString)
  return (await client.query({ text, rowMode: 'array' })).rows
}

/** Creates a database in a new project; `params` are the parameters of its snapshots' paths. */
export async function newDatabase(client: Client) {
  const { id: project_id } = await client.projects.create({ body: { name: 'p' } })
  const { id: database_id, connection_string } = await createdDatabase(client, project_id)
  return { connection_string, params: { project_id, database_id } }
}
