import type { Database, Transaction } from '../../platform/database.ts'

type VolumesTables = {
  /** The volumes of apps that are deployed as images. */
  app_volumes: {
    app_id: string
    name: string
    /** Absolute, in the container. */
    path: string
  }
}

const tablesOf = (on: Database | Transaction) => on.withTables<VolumesTables>()

/** The path of each volume, by its name. */
export type VolumePaths = Readonly<Record<string, string>>

/** Returns the volumes that images of an app have. */
export async function imageVolumesOf(on: Database | Transaction, appId: string): Promise<VolumePaths> {
  const rows = await tablesOf(on).selectFrom('app_volumes').selectAll().where('app_id', '=', appId).execute()
  return Object.fromEntries(rows.map(({ name, path }) => [name, path]))
}

/** Sets the volumes that further images of an app have, in place of others. Their files stay as they are. */
export async function setImageVolumes(transaction: Transaction, appId: string, volumes: VolumePaths): Promise<void> {
  const trx = tablesOf(transaction)
  await trx.deleteFrom('app_volumes').where('app_id', '=', appId).execute()
  const rows = Object.entries(volumes).map(([name, path]) => ({ app_id: appId, name, path }))
  if (rows.length > 0) await trx.insertInto('app_volumes').values(rows).execute()
}
