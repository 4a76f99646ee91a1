import { randomInt } from 'node:crypto'
import { ApiError } from '../contract/errors.ts'
import type { Gateway, PublicAddress } from '../gateway/gateway.ts'
import type { AppsConfig, Range } from '../platform/config.ts'
import type { Database } from '../platform/database.ts'
import { newId } from '../platform/ids.ts'
import { createKeyedLock } from '../platform/keyed-lock.ts'
import { addressOf, hostnameOf } from './addresses.ts'
import type { DeploymentsTables } from './tables.ts'

/** What a name in a project stands for: it keeps its address over all its releases. */
export interface App {
  readonly id: string
  readonly name: string
  readonly number: number
  readonly address: PublicAddress
}

export interface Apps {
  /** The app of this name, made with an address of its own when there is none yet. */
  findOrCreate(projectId: string, name: string): Promise<App>
  get(id: string): Promise<App>
  list(): Promise<App[]>
}

const fields = ['id', 'name', 'number', 'port', 'hostname'] as const

export function createApps(dependencies: {
  readonly database: Database
  readonly gateway: Gateway
  readonly config: AppsConfig
}): Apps {
  const { gateway, config } = dependencies
  const db = dependencies.database.withTables<DeploymentsTables>()
  // Two first deployments of one app would otherwise compete for its address.
  const nameLock = createKeyedLock()

  const find = async (projectId: string, name: string): Promise<App | undefined> => {
    const row = await db
      .selectFrom('apps')
      .select(fields)
      .where('project_id', '=', projectId)
      .where('name', '=', name)
      .executeTakeFirst()
    return row && appOf(row)
  }

  /** Makes the app at this address; `undefined` when another holds the address. */
  const tryAddress = async (projectId: string, name: string, address: PublicAddress): Promise<App | undefined> => {
    const id = newId('app')
    // The gateway takes the address first: a port that another program holds is found out here, not at the switch.
    if (!(await opened(gateway, id, address))) return undefined
    const row = await db
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
      .catch(async (error: unknown) => {
        await gateway.close(id)
        throw error
      })
    if (row !== undefined) return appOf(row)
    await gateway.close(id)
    // Somebody made the same app at the same moment, or another app has the address.
    return find(projectId, name)
  }

  return {
    findOrCreate: (projectId, name) =>
      nameLock(`${projectId} ${name}`, async () => {
        const existing = await find(projectId, name)
        if (existing !== undefined) return existing
        for (const address of candidates(config, projectId, name)) {
          const app = await tryAddress(projectId, name, address)
          if (app !== undefined) return app
        }
        throw new ApiError('invalid_request', 'The server has no free address left for another app.', { field: 'name' })
      }),

    async get(id) {
      return appOf(await db.selectFrom('apps').select(fields).where('id', '=', id).executeTakeFirstOrThrow())
    },

    async list() {
      return (await db.selectFrom('apps').select(fields).orderBy('id').execute()).map(appOf)
    },
  }
}

async function opened(gateway: Gateway, id: string, address: PublicAddress): Promise<boolean> {
  try {
    await gateway.open(id, address)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EADDRINUSE') return false
    throw error
  }
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
