import { type Database, lockByName } from '../platform/database.ts'
import { type FreeAddresses, freeAddresses } from './free-addresses.ts'
import { tablesOf } from './tables.ts'

interface MovedApp {
  readonly id: string
  readonly name: string
  readonly project_id: string
}

/**
 * Gives the apps other addresses that have none of this configuration, and returns how many they are. The host name of an app below
 * a domain is always the same, also when it comes back to that domain.
 */
export async function moveApps(dependencies: FreeAddresses & { readonly database: Database }): Promise<number> {
  const apps = await elsewhere(dependencies)
  for (const app of apps) await moveApp(dependencies, app)
  return apps.length
}

async function elsewhere({ database, config }: FreeAddresses & { readonly database: Database }): Promise<MovedApp[]> {
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
    // As new apps take it.
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
