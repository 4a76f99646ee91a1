import { newId } from '../../../server/src/platform/ids.ts'
import type { TestDatabase } from '../../harness/database.ts'

const kinds = { projects: 'project', deployments: 'deployment', deliveries: 'delivery' } as const

/** Adds copies of a row, newest last, with some changed columns, to simulate hours of use. */
export async function addCopies(
  database: TestDatabase,
  table: 'projects' | 'deployments' | 'deliveries',
  of: string,
  changes: readonly Readonly<Record<string, unknown>>[],
): Promise<void> {
  const rows = changes.map((change) => JSON.stringify({ id: newId(kinds[table]), ...change }))
  await database.query(
    `insert into ${table} select (jsonb_populate_record(base, change::jsonb)).* from ${table} as base, unnest($1::text[]) as change
     where base.id = $2`,
    [rows, of],
  )
}
