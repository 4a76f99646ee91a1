import type { ResponseBody } from '../contract/operations.ts'
import type { Database } from '../platform/database.ts'
import { tablesOf } from './tables.ts'

type Problem = ResponseBody<'certificates.problems'>['problems'][number]

/** More than a page shows; the list of certificates has all. */
const most = 20

/** Returns the certificates of a project whose owner was told that they are in danger, the first to expire first. */
export async function problemsOf(database: Database, projectId: string): Promise<Problem[]> {
  const rows = await tablesOf(database)
    .selectFrom('certificates')
    .select(['id', 'names', 'app_id', 'expires_at', 'failure'])
    .where('project_id', '=', projectId)
    .where('alerted_at', 'is not', null)
    .where('revocation_requested_at', 'is', null)
    .orderBy('expires_at')
    .orderBy('id')
    .limit(most)
    .execute()
  return rows.map((row) => ({ ...row, expires_at: row.expires_at?.toISOString() ?? null }))
}
