import { generateSecret } from '@fairlead/receiver'
import { ApiError, invalidRequest, notFound } from '../contract/errors.ts'
import type { BodyOutput, ResponseBody } from '../contract/operations.ts'
import { cutPage, type Page, type PageRequest } from '../http/page.ts'
import { mayUseProject, type Principal } from '../http/principal.ts'
import type { Database, Transaction } from '../platform/database.ts'
import { newId } from '../platform/ids.ts'
import type { Outbound } from '../platform/outbound.ts'
import type { SecretBox } from '../platform/secrets.ts'
import { urlProblem } from './receiver-url.ts'
import type { WebhooksTables } from './tables.ts'

export interface WebhooksDependencies {
  readonly database: Database
  readonly secrets: SecretBox
  readonly outbound: Outbound
  /** Whether the principal may see this project. */
  readonly ownsProject: (principal: Principal, projectId: string) => Promise<boolean>
}

export interface Webhooks {
  /** Throws `invalid_request` on an address that nothing may be sent to, or a project that is not the account's. */
  create(
    transaction: Transaction,
    principal: Principal,
    input: BodyOutput<'webhooks.create'>,
  ): Promise<ResponseBody<'webhooks.create'>>
  list(principal: Principal, page: PageRequest): Promise<Page<ResponseBody<'webhooks.list'>>>
  /** Throws `not_found`. */
  delete(transaction: Transaction, principal: Principal, id: string): Promise<void>
}

const fields = ['id', 'url', 'events', 'project_id', 'status', 'created_at'] as const

export function createWebhooks(dependencies: WebhooksDependencies): Webhooks {
  const { secrets, outbound } = dependencies
  const db = dependencies.database.withTables<WebhooksTables>()

  const checkProject = async (principal: Principal, projectId: string | null): Promise<void> => {
    if (projectId === null) {
      if (principal.projectIds === null) return
      throw new ApiError('forbidden', 'This API key is bound to its projects; name one of them as project_id.')
    }
    if (!mayUseProject(principal, projectId))
      throw new ApiError('forbidden', 'This API key is bound to other projects.')
    if (!(await dependencies.ownsProject(principal, projectId))) {
      throw invalidRequest({ field: 'project_id', message: 'there is no such project' })
    }
  }

  /** A key that is bound to projects sees their receivers alone. */
  const visible = (principal: Principal) => {
    const rows = db.selectFrom('webhooks').select(fields).where('account_id', '=', principal.accountId)
    return principal.projectIds === null ? rows : rows.where('project_id', 'in', [...principal.projectIds])
  }

  return {
    async create(transaction, principal, input) {
      const projectId = input.project_id ?? null
      await checkProject(principal, projectId)
      const problem = urlProblem(input.url, outbound)
      if (problem !== undefined) throw invalidRequest({ field: 'url', message: problem })
      const id = newId('webhook')
      const secret = generateSecret()
      const row = await transaction
        .withTables<WebhooksTables>()
        .insertInto('webhooks')
        .values({
          id,
          account_id: principal.accountId,
          project_id: projectId,
          url: input.url,
          events: [...new Set(input.events ?? ['*'])],
          secret: secrets.encrypt(secret, id),
          status: 'enabled',
        })
        .returning(fields)
        .executeTakeFirstOrThrow()
      return { ...row, created_at: row.created_at.toISOString(), secret }
    },

    async list(principal, page) {
      const all = visible(principal)
      const { rows, next } = cutPage(
        await (page.after === undefined ? all : all.where('id', '<', page.after))
          .orderBy('id', 'desc')
          .limit(page.limit + 1)
          .execute(),
        page,
      )
      return { body: { webhooks: rows.map((row) => ({ ...row, created_at: row.created_at.toISOString() })) }, next }
    },

    async delete(transaction, principal, id) {
      const row = await visible(principal).where('id', '=', id).executeTakeFirst()
      if (row === undefined) throw notFound()
      await transaction.withTables<WebhooksTables>().deleteFrom('webhooks').where('id', '=', id).execute()
    },
  }
}
