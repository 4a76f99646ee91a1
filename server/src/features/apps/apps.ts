import { sql } from 'kysely'
import { ApiError, invalidRequest, notFound } from '../../contract/errors.ts'
import type { PublicAddress } from '../../gateway/client.ts'
import { type PageRequest, readPage } from '../../http/page.ts'
import { type Database, lockByName, type Transaction } from '../../platform/database.ts'
import { newId } from '../../platform/ids.ts'
import { addressOf, type FreeAddresses, freeAddresses, moveApps } from './addresses.ts'
import { tablesOf } from './tables.ts'

/** An app: a name in a project whose address stays the same for all its releases. */
export interface App {
  readonly id: string
  readonly name: string
  readonly number: number
  readonly address: PublicAddress
}

export interface OwnedApp extends App {
  readonly createdAt: Date
}

export interface AppStore {
  /** Returns the app of this name, locked for the transaction; creates it if necessary. */
  findOrCreate(
    transaction: Transaction,
    project: { readonly id: string },
    name: string,
  ): Promise<{ app: App; isNew: boolean }>
  /** Throws when there is no such app. */
  get(id: string): Promise<App>
  byIds(on: Database | Transaction, ids: readonly string[]): Promise<ReadonlyMap<string, App>>
  list(): Promise<App[]>
  ofProject(projectId: string): Promise<App[]>
  page(
    projectId: string,
    page: PageRequest,
  ): Promise<{ readonly apps: readonly OwnedApp[]; readonly next: string | null }>
  ofProjects(projectIds: readonly string[]): Promise<{ id: string; name: string; project_id: string }[]>
  /**
   * Returns an app of a project. It may be deleted at any time: call `keep` or `hold` before creating anything for it.
   */
  find(on: Database | Transaction, projectId: string, id: string): Promise<OwnedApp | undefined>
  /** Keeps an app of a project from being deleted until the transaction ends. Throws `not_found`. */
  keep(transaction: Transaction, projectId: string, id: string): Promise<OwnedApp>
  /** Locks an app of a project like `lock`. Throws `not_found`. */
  hold(transaction: Transaction, projectId: string, id: string): Promise<OwnedApp>
  /** Throws `invalid_request` when another app of the project has the name. */
  rename(
    transaction: Transaction,
    app: { readonly id: string; readonly projectId: string },
    name: string,
  ): Promise<void>
  /** Locks the app until the transaction ends, so that changes to its deployments run one after the other. */
  lock(transaction: Transaction, id: string): Promise<void>
  /** Increments the app's generation under its lock, and returns it. Throws `not_found`. */
  nextGeneration(transaction: Transaction, id: string): Promise<number>
  /** Gives new addresses to apps whose address does not fit the configuration. Returns their number. */
  move(): Promise<number>
  delete(transaction: Transaction, id: string): Promise<void>
  deleteProject(transaction: Transaction, projectId: string): Promise<void>
}

const fields = ['id', 'name', 'number', 'port', 'hostname'] as const
const ownedFields = [...fields, 'created_at'] as const

export interface AppStoreDependencies extends FreeAddresses {
  readonly database: Database
}

export function createAppStore(dependencies: AppStoreDependencies): AppStore {
  const { database } = dependencies
  const db = tablesOf(database)

  return {
    async findOrCreate(transaction, project, name) {
      const existing = await findNamed(transaction, project.id, name)
      if (existing !== undefined) return { app: existing, isNew: false }
      // The apps of a project are created one after the other, so that each name stands for one app.
      await lockByName(transaction, `apps of ${project.id}`)
      const createdSince = await findNamed(transaction, project.id, name)
      if (createdSince !== undefined) return { app: createdSince, isNew: false }
      return { app: await create(dependencies, transaction, project.id, name), isNew: true }
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

    ofProjects: (projectIds) => ofProjects(database, projectIds),

    page: (projectId, page) => pageOf(database, projectId, page),

    find,

    keep: async (transaction, projectId, id) =>
      existing(await ofId(transaction, projectId, id).forKeyShare().executeTakeFirst()),

    hold: async (transaction, projectId, id) =>
      existing(await ofId(transaction, projectId, id).forUpdate().executeTakeFirst()),

    rename,

    async lock(transaction, id) {
      await tablesOf(transaction).selectFrom('apps').select('id').where('id', '=', id).forUpdate().execute()
    },

    nextGeneration,

    move: () => moveApps(dependencies),

    async delete(transaction, id) {
      await tablesOf(transaction).deleteFrom('apps').where('id', '=', id).execute()
    },

    async deleteProject(transaction, projectId) {
      await tablesOf(transaction).deleteFrom('apps').where('project_id', '=', projectId).execute()
    },
  }
}

function ofProjects(database: Database, projectIds: readonly string[]) {
  const wanted = sql<string>`any(${[...projectIds]}::text[])`
  const named = tablesOf(database).selectFrom('apps').select(['id', 'name', 'project_id'])
  return named.where('project_id', '=', wanted).orderBy('id', 'desc').execute()
}

async function pageOf(database: Database, projectId: string, page: PageRequest) {
  const ofProject = tablesOf(database).selectFrom('apps').select(ownedFields).where('project_id', '=', projectId)
  const { rows, next } = await readPage(ofProject, page, 'id')
  return { apps: rows.map(ownedAppOf), next }
}

const ofId = (on: Database | Transaction, projectId: string, id: string) =>
  tablesOf(on).selectFrom('apps').select(ownedFields).where('project_id', '=', projectId).where('id', '=', id)

async function find(on: Database | Transaction, projectId: string, id: string): Promise<OwnedApp | undefined> {
  const row = await ofId(on, projectId, id).executeTakeFirst()
  return row && ownedAppOf(row)
}

function existing(row: OwnedAppRow | undefined): OwnedApp {
  if (row === undefined) throw notFound()
  return ownedAppOf(row)
}

async function rename(
  transaction: Transaction,
  app: { readonly id: string; readonly projectId: string },
  name: string,
): Promise<void> {
  // The creation of an app takes the same lock.
  await lockByName(transaction, `apps of ${app.projectId}`)
  const holder = await findNamed(transaction, app.projectId, name)
  if (holder !== undefined && holder.id !== app.id) {
    throw invalidRequest({ field: 'name', message: 'is the name of another app of this project' })
  }
  await tablesOf(transaction).updateTable('apps').set({ name }).where('id', '=', app.id).execute()
}

async function findNamed(transaction: Transaction, projectId: string, name: string): Promise<App | undefined> {
  const row = await tablesOf(transaction)
    .selectFrom('apps')
    .select(fields)
    .where('project_id', '=', projectId)
    .where('name', '=', name)
    .forUpdate()
    .executeTakeFirst()
  return row && appOf(row)
}

async function create(
  dependencies: AppStoreDependencies,
  transaction: Transaction,
  projectId: string,
  name: string,
): Promise<App> {
  for await (const address of freeAddresses(dependencies, transaction, { projectId, name })) {
    const app = await insert(transaction, projectId, name, address)
    if (app !== undefined) return app
  }
  throw new ApiError('invalid_request', 'The server has no free address left for another app.', { field: 'name' })
}

async function nextGeneration(transaction: Transaction, id: string): Promise<number> {
  const counted = await tablesOf(transaction)
    .updateTable('apps')
    .set({ generation: sql`generation + 1` })
    .where('id', '=', id)
    .returning('generation')
    .executeTakeFirst()
  if (counted === undefined) throw notFound()
  return counted.generation
}

/** Creates the app at this address; returns `undefined` when another app has the address. */
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

interface AppRow {
  readonly id: string
  readonly name: string
  readonly number: number
  readonly port: number | null
  readonly hostname: string | null
}

interface OwnedAppRow extends AppRow {
  readonly created_at: Date
}

const ownedAppOf = (row: OwnedAppRow): OwnedApp => ({
  ...appOf(row),
  createdAt: row.created_at,
})

function appOf(row: AppRow): App {
  return { id: row.id, name: row.name, number: row.number, address: addressOf(row) }
}
