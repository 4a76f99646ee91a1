import { randomInt } from 'node:crypto'
import { ApiError } from '../contract/errors.ts'
import type { DeploymentsTables } from '../deployments/state/tables.ts'
import type { Gateway, PublicAddress } from '../gateway/gateway.ts'
import type { AppsConfig, Range } from '../platform/config.ts'
import { type Database, lockByName, type Transaction } from '../platform/database.ts'
import { newId } from '../platform/ids.ts'
import { addressOf, hostnameOf } from './addresses.ts'

/** What a name in a project stands for: it keeps its address over all its releases. */
export interface App {
  readonly id: string
  readonly name: string
  readonly number: number
  readonly address: PublicAddress
}

export interface Apps {
  /**
   * The app of this name, locked for the transaction; made with an address of its own when there is none yet.
   * Throws `invalid_request` when the project has as many apps as it may have.
   */
  findOrCreate(
    transaction: Transaction,
    project: { readonly id: string; readonly plan: string; readonly mostApps: number },
    name: string,
  ): Promise<{ app: App; isNew: boolean }>
  get(id: string): Promise<App>
  list(): Promise<App[]>
  ofProject(projectId: string): Promise<App[]>
}

const fields = ['id', 'name', 'number', 'port', 'hostname'] as const

export function createApps(dependencies: {
  readonly database: Database
  readonly gateway: Gateway
  readonly config: AppsConfig
}): Apps {
  const { gateway, config } = dependencies
  const db = dependencies.database.withTables<DeploymentsTables>()

  const find = async (transaction: Transaction, projectId: string, name: string): Promise<App | undefined> => {
    const row = await transaction
      .withTables<DeploymentsTables>()
      .selectFrom('apps')
      .select(fields)
      .where('project_id', '=', projectId)
      .where('name', '=', name)
      .forUpdate()
      .executeTakeFirst()
    return row && appOf(row)
  }

  /** Makes the app at this address; `undefined` when another app or another program holds the address. */
  const tryAddress = async (
    transaction: Transaction,
    projectId: string,
    name: string,
    address: PublicAddress,
  ): Promise<App | undefined> => {
    const id = newId('app')
    if (!(await isFree(gateway, id, address))) return undefined
    const row = await transaction
      .withTables<DeploymentsTables>()
      .insertInto('apps')
      .values({
        id,
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

  const create = async (
    transaction: Transaction,
    project: Parameters<Apps['findOrCreate']>[1],
    name: string,
  ): Promise<App> => {
    const { count } = await transaction
      .withTables<DeploymentsTables>()
      .selectFrom('apps')
      .select(({ fn }) => fn.countAll<string>().as('count'))
      .where('project_id', '=', project.id)
      .executeTakeFirstOrThrow()
    if (Number(count) >= project.mostApps) throw tooMany(project)
    for (const address of candidates(config, project.id, name)) {
      const app = await tryAddress(transaction, project.id, name, address)
      if (app !== undefined) return app
    }
    throw new ApiError('invalid_request', 'The server has no free address left for another app.', { field: 'name' })
  }

  return {
    async findOrCreate(transaction, project, name) {
      const existing = await find(transaction, project.id, name)
      if (existing !== undefined) return { app: existing, isNew: false }
      // New apps of a project are made one after the other: counted and named without a race.
      await lockByName(transaction, `apps of ${project.id}`)
      const meanwhile = await find(transaction, project.id, name)
      if (meanwhile !== undefined) return { app: meanwhile, isNew: false }
      return { app: await create(transaction, project, name), isNew: true }
    },

    async get(id) {
      return appOf(await db.selectFrom('apps').select(fields).where('id', '=', id).executeTakeFirstOrThrow())
    },

    async list() {
      return (await db.selectFrom('apps').select(fields).orderBy('id').execute()).map(appOf)
    },

    async ofProject(projectId) {
      return (await db.selectFrom('apps').select(fields).where('project_id', '=', projectId).execute()).map(appOf)
    },
  }
}

function tooMany({ plan, mostApps }: { plan: string; mostApps: number }): ApiError {
  return new ApiError(
    'invalid_request',
    `name: the plan ${plan} of this project allows ${mostApps} apps, and it has them. Delete all deployments of an app ` +
      'that is not needed any more, or give the project a larger plan.',
    { field: 'name', most_apps: mostApps },
  )
}

/** Listens on the address for a moment: a port that another program holds is found out here, not at the switch. */
async function isFree(gateway: Gateway, id: string, address: PublicAddress): Promise<boolean> {
  try {
    await gateway.open(id, address)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EADDRINUSE') return false
    throw error
  }
  await gateway.close(id)
  return true
}

/** Addresses to try, one after the other. */
function* candidates(config: AppsConfig, projectId: string, name: string): Generator<PublicAddress> {
  if (config.mode === 'hostnames') {
    for (let attempt = 1; attempt <= 100; attempt++) {
      yield { hostname: hostnameOf({ name, projectId, domain: config.domain, attempt }) }
    }
  } else {
    for (const port of portsFrom(config.ports)) yield { port }
  }
}

/** Every port of a range once, from a random one on, so that two servers on one machine seldom meet. */
function* portsFrom({ from, to }: Range): Generator<number> {
  const size = to - from + 1
  const start = randomInt(size)
  for (let step = 0; step < size; step++) yield from + ((start + step) % size)
}

function appOf(row: { id: string; name: string; number: number; port: number | null; hostname: string | null }): App {
  return { id: row.id, name: row.name, number: row.number, address: addressOf(row) }
}
