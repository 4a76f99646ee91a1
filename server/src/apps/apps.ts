import { sql } from 'kysely'
import { ApiError } from '../contract/errors.ts'
import type { PublicAddress } from '../gateway/client.ts'
import type { AppsConfig } from '../platform/config.ts'
import { type Database, lockByName, type Transaction } from '../platform/database.ts'
import { newId } from '../platform/ids.ts'
import { addressOf, candidates } from './addresses.ts'
import { tablesOf } from './tables.ts'

/** An app: a name in a project that keeps its address over all its releases. */
export interface App {
  readonly id: string
  readonly name: string
  readonly number: number
  readonly address: PublicAddress
}

/** The project that a new app belongs to, with the number of apps that its plan allows. */
export interface ProjectOfApp {
  readonly id: string
  readonly plan: string
  readonly mostApps: number
}

export interface Apps {
  /**
   * Returns the app of this name, locked for the transaction; makes it with an address of its own when there is none.
   * Throws `invalid_request` when the project has as many apps as its plan allows.
   */
  findOrCreate(transaction: Transaction, project: ProjectOfApp, name: string): Promise<{ app: App; isNew: boolean }>
  /** Throws when there is no such app. */
  get(id: string): Promise<App>
  /** The apps of these ids that are there, by id. */
  byIds(on: Database | Transaction, ids: readonly string[]): Promise<ReadonlyMap<string, App>>
  list(): Promise<App[]>
  ofProject(projectId: string): Promise<App[]>
  /** Locks the app until the transaction ends, so that changes of several of its deployments run one after the other. */
  lock(transaction: Transaction, id: string): Promise<void>
  /** Counts the app's generation up, under its lock, and returns it. */
  nextGeneration(transaction: Transaction, id: string): Promise<number>
  delete(transaction: Transaction, id: string): Promise<void>
  deleteProject(transaction: Transaction, projectId: string): Promise<void>
}

const fields = ['id', 'name', 'number', 'port', 'hostname'] as const

export function createApps(dependencies: {
  readonly database: Database
  /** False when another program listens on this port. */
  readonly isPortFree: (port: number) => Promise<boolean>
  readonly config: AppsConfig
}): Apps {
  const { database, isPortFree, config } = dependencies
  const db = tablesOf(database)

  return {
    async findOrCreate(transaction, project, name) {
      const existing = await find(transaction, project.id, name)
      if (existing !== undefined) return { app: existing, isNew: false }
      // New apps of a project are made one after the other: counted and named without a race.
      await lockByName(transaction, `apps of ${project.id}`)
      const meanwhile = await find(transaction, project.id, name)
      if (meanwhile !== undefined) return { app: meanwhile, isNew: false }
      await assertRoom(transaction, project)
      const taken = await takenPorts(transaction)
      for (const address of candidates(config, project.id, name)) {
        if ('port' in address && (taken.has(address.port) || !(await isPortFree(address.port)))) continue
        const app = await insert(transaction, project.id, name, address)
        if (app !== undefined) return { app, isNew: true }
      }
      throw new ApiError('invalid_request', 'The server has no free address left for another app.', { field: 'name' })
    },

    async get(id) {
      return appOf(await db.selectFrom('apps').select(fields).where('id', '=', id).executeTakeFirstOrThrow())
    },

    async byIds(on, ids) {
      const wanted = sql<string>`any(${[...new Set(ids)]}::text[])`
      const rows = await tablesOf(on).selectFrom('apps').select(fields).where('id', '=', wanted).execute()
      return new Map(rows.map((row) => [row.id, appOf(row)]))
    },

    async list() {
      return (await db.selectFrom('apps').select(fields).orderBy('id').execute()).map(appOf)
    },

    async ofProject(projectId) {
      return (await db.selectFrom('apps').select(fields).where('project_id', '=', projectId).execute()).map(appOf)
    },

    async lock(transaction, id) {
      await tablesOf(transaction).selectFrom('apps').select('id').where('id', '=', id).forUpdate().execute()
    },

    async nextGeneration(transaction, id) {
      const { generation } = await tablesOf(transaction)
        .updateTable('apps')
        .set({ generation: sql`generation + 1` })
        .where('id', '=', id)
        .returning('generation')
        .executeTakeFirstOrThrow()
      return generation
    },

    async delete(transaction, id) {
      await tablesOf(transaction).deleteFrom('apps').where('id', '=', id).execute()
    },

    async deleteProject(transaction, projectId) {
      await tablesOf(transaction).deleteFrom('apps').where('project_id', '=', projectId).execute()
    },
  }
}

async function find(transaction: Transaction, projectId: string, name: string): Promise<App | undefined> {
  const row = await tablesOf(transaction)
    .selectFrom('apps')
    .select(fields)
    .where('project_id', '=', projectId)
    .where('name', '=', name)
    .forUpdate()
    .executeTakeFirst()
  return row && appOf(row)
}

/** The ports of all apps. They are not probed: the gateway may listen there. */
async function takenPorts(transaction: Transaction): Promise<ReadonlySet<number>> {
  const rows = await tablesOf(transaction).selectFrom('apps').select('port').where('port', 'is not', null).execute()
  return new Set(rows.flatMap(({ port }) => (port === null ? [] : [port])))
}

async function assertRoom(transaction: Transaction, { id, plan, mostApps }: ProjectOfApp): Promise<void> {
  const { count } = await tablesOf(transaction)
    .selectFrom('apps')
    .select(({ fn }) => fn.countAll<string>().as('count'))
    .where('project_id', '=', id)
    .executeTakeFirstOrThrow()
  if (Number(count) < mostApps) return
  throw new ApiError(
    'invalid_request',
    `name: the plan ${plan} of this project allows ${mostApps} apps, and it has them. Delete all deployments of an app ` +
      'that is not needed any more, or give the project a larger plan.',
    { field: 'name', most_apps: mostApps },
  )
}

/** Makes the app at this address; returns `undefined` when another app has the address. */
async function insert(
  transaction: Transaction,
  projectId: string,
  name: string,
  address: PublicAddress,
): Promise<App | undefined> {
  const row = await tablesOf(transaction)
    .insertInto('apps')
    .values({
      id: newId('app'),
      project_id: projectId,
      name,
      port: 'port' in address ? address.port : null,
      hostname: 'hostname' in address ? address.hostname : null,
    })
    .onConflict((conflict) => conflict.doNothing())
    .returning(fields)
    .executeTakeFirst()
  return row && appOf(row)
}

function appOf(row: { id: string; name: string; number: number; port: number | null; hostname: string | null }): App {
  return { id: row.id, name: row.name, number: row.number, address: addressOf(row) }
}
