import { generateSecret } from '@fairlead/receiver'
import { type Selectable, sql } from 'kysely'
import { ApiError, invalidRequest, notFound } from '../contract/errors.ts'
import type { BodyOutput, ResponseBody } from '../contract/operations.ts'
import { type Page, type PageRequest, readPage } from '../http/page.ts'
import { mayUseProject, type Principal } from '../http/principal.ts'
import { notify } from '../platform/database/notifications.ts'
import { type Database, lockByName, type Transaction } from '../platform/database.ts'
import { newId } from '../platform/ids.ts'
import type { Outbound } from '../platform/outbound.ts'
import type { SecretBox } from '../platform/secrets/secret-box.ts'
import { changedChannel } from './outbox.ts'
import { urlProblem } from './receiver-url.ts'
import type { WebhooksTables } from './tables.ts'
import { fields, findWebhook, visible } from './visible.ts'

export interface WebhooksDependencies {
  readonly database: Database
  readonly secrets: SecretBox
  readonly outbound: Outbound
  /** Whether the principal's account has this project. */
  readonly ownsProject: (transaction: Transaction, principal: Principal, projectId: string) => Promise<boolean>
  /** How many receivers an account may have. */
  readonly mostReceivers: (transaction: Transaction, accountId: string) => Promise<number>
}

/** The receivers of an account. Those that the principal may not see are `not_found`. */
export interface Webhooks {
  /**
   * Throws `invalid_request` on an address that nothing may be sent to, a project that is not the account's, and when
   * the account has as many receivers as it may have.
   */
  create(
    transaction: Transaction,
    principal: Principal,
    input: BodyOutput<'webhooks.create'>,
  ): Promise<ResponseBody<'webhooks.create'>>
  list(principal: Principal, page: PageRequest): Promise<Page<ResponseBody<'webhooks.list'>>>
  get(principal: Principal, id: string): Promise<ResponseBody<'webhooks.get'>>
  /** Throws as `create` does of addresses and projects. */
  update(
    transaction: Transaction,
    principal: Principal,
    id: string,
    input: BodyOutput<'webhooks.update'>,
  ): Promise<ResponseBody<'webhooks.update'>>
  delete(transaction: Transaction, principal: Principal, id: string): Promise<void>
  rotateSecret(
    transaction: Transaction,
    principal: Principal,
    id: string,
    input: BodyOutput<'webhooks.rotateSecret'>,
  ): Promise<ResponseBody<'webhooks.rotateSecret'>>
}

const hourMs = 3_600_000

export function createWebhooks(dependencies: WebhooksDependencies): Webhooks {
  const { database, secrets, outbound } = dependencies

  const checkUrl = (url: string): void => {
    const problem = urlProblem(url, outbound)
    if (problem !== undefined) throw invalidRequest({ field: 'url', message: problem })
  }

  const checkProject = async (trx: Transaction, principal: Principal, projectId: string | null): Promise<void> => {
    if (projectId === null) {
      if (principal.projectIds === null) return
      throw new ApiError('forbidden', 'This API key is bound to its projects; name one of them as project_id.')
    }
    if (!mayUseProject(principal, projectId))
      throw new ApiError('forbidden', 'This API key is bound to other projects.')
    if (!(await dependencies.ownsProject(trx, principal, projectId))) {
      throw invalidRequest({ field: 'project_id', message: 'there is no such project' })
    }
  }

  /** One after the other within an account, so that two at once cannot both take the last place. */
  const takePlace = async (trx: Transaction, accountId: string): Promise<void> => {
    await lockByName(trx, `webhooks ${accountId}`)
    const most = await dependencies.mostReceivers(trx, accountId)
    const { count } = await trx
      .withTables<WebhooksTables>()
      .selectFrom('webhooks')
      .select(({ fn }) => fn.countAll<string>().as('count'))
      .where('account_id', '=', accountId)
      .executeTakeFirstOrThrow()
    if (Number(count) < most) return
    throw new ApiError(
      'invalid_request',
      `The account may have ${most} webhook receivers, and it has them. Delete one that is not needed any more.`,
      { max_webhooks: most },
    )
  }

  return {
    async create(transaction, principal, input) {
      const projectId = input.project_id ?? null
      await checkProject(transaction, principal, projectId)
      checkUrl(input.url)
      await takePlace(transaction, principal.accountId)
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
          rate: input.rate ?? null,
          secret: secrets.encrypt(secret, id),
          status: 'enabled',
        })
        .returning(fields)
        .executeTakeFirstOrThrow()
      return { ...shown(row), secret }
    },

    async list(principal, page) {
      const { rows, next } = await readPage(visible(database, principal), page, 'id')
      return { body: { webhooks: rows.map(shown) }, next }
    },

    async get(principal, id) {
      return shown(await findWebhook(database, principal, id))
    },

    async update(transaction, principal, id, input) {
      await findWebhook(transaction, principal, id)
      if (input.project_id !== undefined) await checkProject(transaction, principal, input.project_id)
      if (input.url !== undefined) checkUrl(input.url)
      const row = await transaction
        .withTables<WebhooksTables>()
        .updateTable('webhooks')
        .set(({ ref }) => ({
          url: input.url ?? ref('url'),
          ...(input.events === undefined ? {} : { events: [...new Set(input.events)] }),
          ...(input.project_id === undefined ? {} : { project_id: input.project_id }),
          ...(input.rate === undefined ? {} : { rate: input.rate }),
          ...(input.status === undefined ? {} : statusChange(input.status)),
        }))
        .where('id', '=', id)
        .returning(fields)
        .executeTakeFirst()
      if (row === undefined) throw notFound()
      await notify(transaction, changedChannel, id)
      return shown(row)
    },

    async delete(transaction, principal, id) {
      await findWebhook(transaction, principal, id)
      await transaction.withTables<WebhooksTables>().deleteFrom('webhooks').where('id', '=', id).execute()
      await notify(transaction, changedChannel, id)
    },

    async rotateSecret(transaction, principal, id, input) {
      await findWebhook(transaction, principal, id)
      const secret = generateSecret()
      const row = await transaction
        .withTables<WebhooksTables>()
        .updateTable('webhooks')
        .set(({ ref }) => ({
          previous_secret: ref('secret'),
          previous_secret_until: new Date(Date.now() + input.overlap_hours * hourMs),
          secret: secrets.encrypt(secret, id),
        }))
        .where('id', '=', id)
        .returning(fields)
        .executeTakeFirst()
      if (row === undefined) throw notFound()
      await notify(transaction, changedChannel, id)
      return { ...shown(row), secret }
    },
  }
}

/** Enabling begins anew: earlier failures no longer count. A reason is kept that was there before the user's own. */
function statusChange(status: 'enabled' | 'disabled') {
  if (status === 'enabled') return { status, disabled_reason: null, failing_since: null, failed_attempts: 0 }
  return { status, disabled_reason: sql<'user'>`coalesce(disabled_reason, 'user')` }
}

type Row = Pick<Selectable<WebhooksTables['webhooks']>, (typeof fields)[number]>

const shown = (row: Row): ResponseBody<'webhooks.get'> => ({ ...row, created_at: row.created_at.toISOString() })
