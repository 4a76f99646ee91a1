import { randomInt } from 'node:crypto'
import { sql } from 'kysely'
import { slugOf } from '../../contract/fields.ts'
import type { PublicAddress } from '../../gateway/client.ts'
import type { AppsConfig, Range } from '../../platform/config.ts'
import { type Database, lockByName, type Transaction } from '../../platform/database.ts'
import { tablesOf } from './tables.ts'

/**
 * Returns the host name of an app. The end of the project's id distinguishes apps of different projects; `attempt`
 * above 1 distinguishes two names of a project with the same slug.
 */
export function hostnameOf(options: { name: string; projectId: string; domain: string; attempt: number }): string {
  const again = options.attempt > 1 ? `-${options.attempt}` : ''
  return `${slugOf(options.name)}${again}-${options.projectId.slice(-8)}.${options.domain}`
}

export function addressOf(app: { port: number | null; hostname: string | null }): PublicAddress {
  if (app.port !== null) return { port: app.port }
  return { hostname: app.hostname ?? '' }
}

export function publicUrl(address: PublicAddress, config: AppsConfig): string {
  if ('port' in address) {
    const host = config.mode === 'ports' ? config.publicHost : config.domain
    return `http://${host.includes(':') ? `[${host}]` : host}:${address.port}`
  }
  if (config.mode === 'ports') return `http://${address.hostname}`
  const usual = config.scheme === 'https' ? 443 : 80
  const port = config.publicPort === usual ? '' : `:${config.publicPort}`
  return `${config.scheme}://${address.hostname}${port}`
}

export function* candidates(config: AppsConfig, projectId: string, name: string): Generator<PublicAddress> {
  if (config.mode === 'hostnames') {
    for (let attempt = 1; attempt <= 100; attempt++) {
      yield { hostname: hostnameOf({ name, projectId, domain: config.domain, attempt }) }
    }
  } else {
    for (const port of portsFrom(config.ports)) yield { port }
  }
}

/** Yields every port of a range once. Begins at a random port, so that two servers on one machine rarely collide. */
function* portsFrom({ from, to }: Range): Generator<number> {
  const size = to - from + 1
  const start = randomInt(size)
  for (let step = 0; step < size; step++) yield from + ((start + step) % size)
}

export interface FreeAddresses {
  readonly config: AppsConfig
  readonly isPortFree: (port: number) => Promise<boolean>
}

/** Yields the possible addresses of an app, in order. Another app may already have a host name among them. */
export async function* freeAddresses(
  { config, isPortFree }: FreeAddresses,
  transaction: Transaction,
  { projectId, name }: { readonly projectId: string; readonly name: string },
): AsyncGenerator<PublicAddress> {
  const taken = await takenPorts(transaction)
  for (const address of candidates(config, projectId, name)) {
    if ('port' in address && (taken.has(address.port) || !(await isPortFree(address.port)))) continue
    yield address
  }
}

/** Returns the ports of all apps. They are not probed, because the gateway may listen there. */
async function takenPorts(transaction: Transaction): Promise<ReadonlySet<number>> {
  const rows = await tablesOf(transaction).selectFrom('apps').select('port').where('port', 'is not', null).execute()
  return new Set(rows.flatMap(({ port }) => (port === null ? [] : [port])))
}

/** An app with a host name below the domain of the server. */
export interface AppHostname {
  readonly appId: string
  readonly projectId: string
  readonly hostname: string
}

/** Returns the apps with these ids or host names. Apps that have a port are left out. */
export async function hostnamesOf(
  database: Database,
  { ids, hostnames }: { readonly ids: readonly string[]; readonly hostnames: readonly string[] },
): Promise<AppHostname[]> {
  if (ids.length + hostnames.length === 0) return []
  const any = (texts: readonly string[]) => sql<string>`any(${[...new Set(texts)]}::text[])`
  return withHostnames(database)
    .where(({ or, eb }) => or([eb('id', '=', any(ids)), eb('hostname', '=', any(hostnames))]))
    .execute()
}

export function appAt(database: Database, hostname: string): Promise<AppHostname | undefined> {
  return withHostnames(database).where('hostname', '=', hostname).executeTakeFirst()
}

function withHostnames(database: Database) {
  return tablesOf(database)
    .selectFrom('apps')
    .select(['id as appId', 'project_id as projectId'])
    .select(sql<string>`hostname`.as('hostname'))
    .where('hostname', 'is not', null)
}

interface MovedApp {
  readonly id: string
  readonly name: string
  readonly project_id: string
}

/**
 * Gives new addresses to apps whose address does not fit the configuration, and returns their number. An app always
 * gets the same host name below a domain, even after it had another domain in between.
 */
export async function moveApps(dependencies: FreeAddresses & { readonly database: Database }): Promise<number> {
  const apps = await appsToMove(dependencies)
  for (const app of apps) await moveApp(dependencies, app)
  return apps.length
}

async function appsToMove({ database, config }: FreeAddresses & { readonly database: Database }): Promise<MovedApp[]> {
  const all = tablesOf(database).selectFrom('apps').select(['id', 'name', 'project_id', 'hostname']).orderBy('id')
  if (config.mode === 'ports') return all.where('hostname', 'is not', null).execute()
  const rows = await all.execute()
  return rows.filter(({ hostname }) => hostname === null || !hostname.endsWith(`.${config.domain}`))
}

async function moveApp(
  dependencies: FreeAddresses & { readonly database: Database },
  { id, name, project_id: projectId }: MovedApp,
): Promise<void> {
  await dependencies.database.transaction().execute(async (transaction) => {
    // The creation of an app takes the same lock.
    await lockByName(transaction, `apps of ${projectId}`)
    for await (const address of freeAddresses(dependencies, transaction, { projectId, name })) {
      const hostname = 'hostname' in address ? address.hostname : null
      const { numUpdatedRows } = await tablesOf(transaction)
        .updateTable('apps')
        .set({ hostname, port: 'port' in address ? address.port : null })
        .where('id', '=', id)
        .where(({ not, exists, selectFrom }) =>
          not(exists(selectFrom('apps as other').select('other.id').where('other.hostname', '=', hostname))),
        )
        .executeTakeFirstOrThrow()
      if (numUpdatedRows > 0n) return
    }
  })
}
