import { sql } from 'kysely'
import type { Database } from '../platform/database.ts'
import { tablesOf } from './tables.ts'

/** An app that has a host name below the domain of the server. */
export interface AppHostname {
  readonly appId: string
  readonly projectId: string
  readonly hostname: string
}

/** Returns the apps with these ids or host names; those that have a port instead are left out. */
export async function hostnamesOf(
  database: Database,
  { ids, hostnames }: { readonly ids: readonly string[]; readonly hostnames: readonly string[] },
): Promise<AppHostname[]> {
  if (ids.length + hostnames.length === 0) return []
  const any = (texts: readonly string[]) => sql<string>`any(${[...new Set(texts)]}::text[])`
  return of(database)
    .where(({ or, eb }) => or([eb('id', '=', any(ids)), eb('hostname', '=', any(hostnames))]))
    .execute()
}

/** Returns the app with a host name. */
export function appAt(database: Database, hostname: string): Promise<AppHostname | undefined> {
  return of(database).where('hostname', '=', hostname).executeTakeFirst()
}

function of(database: Database) {
  return tablesOf(database)
    .selectFrom('apps')
    .select(['id as appId', 'project_id as projectId'])
    .select(sql<string>`hostname`.as('hostname'))
    .where('hostname', 'is not', null)
}
