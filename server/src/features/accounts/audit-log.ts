import { sql } from 'kysely'
import type { ResponseBody } from '../../contract/operations.ts'
import type { Audit } from '../../http/call.ts'
import { type Page, type PageRequest, readPage } from '../../http/page.ts'
import type { Database } from '../../platform/database.ts'
import { newId } from '../../platform/ids.ts'
import type { AccountsTables } from './tables.ts'

export interface AuditLog {
  readonly write: Audit
  list(accountId: string, page: PageRequest): Promise<Page<ResponseBody<'auditLog.list'>>>
  forget(days: number): Promise<void>
  keepNewest(accountId: string, count: number): Promise<void>
}

export function createAuditLog({ database }: { database: Database }): AuditLog {
  const db = database.withTables<AccountsTables>()

  return {
    async write(transaction, entry) {
      await transaction
        .withTables<AccountsTables>()
        .insertInto('audit_entries')
        .values({
          id: newId('auditEntry'),
          account_id: entry.accountId,
          actor_type: entry.actor.type,
          actor_id: entry.actor.id,
          actor_name: entry.actor.name,
          address: entry.address,
          request_id: entry.requestId,
          operation: entry.operation,
          project_id: entry.projectId,
          resource_id: entry.resourceId,
          details: entry.details === undefined ? null : JSON.stringify(entry.details),
        })
        .execute()
    },

    async list(accountId, page) {
      const own = db.selectFrom('audit_entries').selectAll().where('account_id', '=', accountId)
      const { rows, next } = await readPage(own, page, 'id')
      const entries = rows.map((row) => ({
        id: row.id,
        at: row.at.toISOString(),
        actor: { type: row.actor_type, id: row.actor_id, name: row.actor_name },
        address: row.address,
        request_id: row.request_id,
        operation: row.operation,
        project_id: row.project_id,
        resource_id: row.resource_id,
        details: row.details,
      }))
      return { body: { entries }, next }
    },

    async forget(days) {
      await db.deleteFrom('audit_entries').where('at', '<', sql<Date>`now() - make_interval(days => ${days})`).execute()
    },

    async keepNewest(accountId, count) {
      await sql`delete from audit_entries where account_id = ${accountId} and id <= (
        select id from audit_entries where account_id = ${accountId} order by id desc offset ${count} limit 1
      )`.execute(database)
    },
  }
}
