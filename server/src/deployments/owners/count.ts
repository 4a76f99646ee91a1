import type { Database } from '../../platform/database.ts'
import type { DeploymentsTables } from '../state/tables.ts'

/** How many deployments there are in each state. */
export async function countByStatus(database: Database): Promise<Record<string, number>> {
  const rows = await database
    .withTables<DeploymentsTables>()
    .selectFrom('deployments')
    .select(({ fn }) => ['status', fn.countAll<string>().as('count')])
    .groupBy('status')
    .execute()
  return Object.fromEntries(rows.map(({ status, count }) => [status, Number(count)]))
}
