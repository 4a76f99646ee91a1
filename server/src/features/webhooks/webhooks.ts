import { generateSecret } from '@fairlead/receiver'
import { type Selectable, sql } from 'kysely'
import { ApiError, invalidRequest, notFound } from '../../contract/errors.ts'
import type { BodyOutput, ResponseBody } from '../../contract/operations.ts'
import { type Page, type PageRequest, readPage } from '../../http/page.ts'
import { mayUseProject, type Principal } from '../../http/principal.ts'
import { notify } from '../../platform/database/notifications.ts'
import { type Database, lockByName, type Transaction } from '../../platform/database.ts'
import { newId } from '../../platform/ids.ts'
import type { Outbound } from '../../platform/outbound.ts'
import type { SecretBox } from '../../platform/secrets.ts'
import { changedChannel } from './outbox.ts'
import { urlProblem } from './send.ts'
import type { WebhooksTables } from './tables.ts'

export interface WebhookRequestsDependencies extends WebhookRulesDependencies {
  readonly database: Database
  readonly secrets: SecretBox
}

/** The webhooks of an account. Webhooks that the principal may not see are `not_found`. */
export interface WebhookRequests {
  /**
   * Throws `invalid_request` on an address to which nothing may be sent, on a project of another account, and when the
   * account has reached its limit of webhooks.
   */
  create(
    transaction: Transaction,
    principal: Principal,
    input: BodyOutput<'webhooks.create'>,
  ): Promise<ResponseBody<'webhooks.create'>>
  list(principal: Principal, page: PageRequest): Promise<Page<ResponseBody<'webhooks.list'>>>
  get(principal: Principal, id: string): Promise<ResponseBody<'webhooks.get'>>
  /** Throws `invalid_request` on an address or a project like `create`. */
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

export function createWebhookRequests(dependencies: WebhookRequestsDependencies): WebhookRequests {
  const { database, secrets } = dependencies

  return {
    async create(transaction, principal, input) {
      await checkProject(dependencies, transaction, principal, input.project_id ?? null)
      checkUrl(dependencies, input.url)
      await checkLimit(dependencies, transaction, principal.accountId)
      return insertWebhook(transaction, secrets, principal.accountId, input)
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
      if (input.project_id !== undefined) await checkProject(dependencies, transaction, principal, input.project_id)
      if (input.url !== undefined) checkUrl(dependencies, input.url)
      return shown(await updateWebhook(transaction, id, input))
    },

    async delete(transaction, principal, id) {
      await findWebhook(transaction, principal, id)
      await transaction.withTables<WebhooksTables>().deleteFrom('webhooks').where('id', '=', id).execute()
      await notify(transaction, changedChannel, id)
    },

    async rotateSecret(transaction, principal, id, input) {
      await findWebhook(transaction, principal, id)
      const secret = generateSecret()
      const previousUntil = new Date(Date.now() + input.overlap_hours * hourMs)
      const row = await replaceSecret(transaction, id, { sealed: secrets.encrypt(secret, id), previousUntil })
      return { ...shown(row), secret }
    },
  }
}

type Row = Pick<Selectable<WebhooksTables['webhooks']>, (typeof fields)[number]>

const shown = (row: Row): ResponseBody<'webhooks.get'> => ({ ...row, created_at: row.created_at.toISOString() })

async function insertWebhook(
  transaction: Transaction,
  secrets: SecretBox,
  accountId: string,
  input: BodyOutput<'webhooks.create'>,
): Promise<ResponseBody<'webhooks.create'>> {
  const id = newId('webhook')
  const secret = generateSecret()
  const row = await transaction
    .withTables<WebhooksTables>()
    .insertInto('webhooks')
    .values({
      id,
      account_id: accountId,
      project_id: input.project_id ?? null,
      url: input.url,
      events: [...new Set(input.events ?? ['*'])],
      rate: input.rate ?? null,
      secret: secrets.encrypt(secret, id),
      status: 'enabled',
    })
    .returning(fields)
    .executeTakeFirstOrThrow()
  return { ...shown(row), secret }
}

async function updateWebhook(transaction: Transaction, id: string, input: BodyOutput<'webhooks.update'>): Promise<Row> {
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
  return row
}

/** Enabling resets the endpoint's health. Disabling keeps an existing reason. */
function statusChange(status: 'enabled' | 'disabled') {
  if (status === 'enabled') return { status, disabled_reason: null, failing_since: null, failed_attempts: 0 }
  return { status, disabled_reason: sql<'user'>`coalesce(disabled_reason, 'user')` }
}

async function replaceSecret(
  transaction: Transaction,
  id: string,
  { sealed, previousUntil }: { readonly sealed: Buffer; readonly previousUntil: Date },
): Promise<Row> {
  const row = await transaction
    .withTables<WebhooksTables>()
    .updateTable('webhooks')
    .set(({ ref }) => ({ previous_secret: ref('secret'), previous_secret_until: previousUntil, secret: sealed }))
    .where('id', '=', id)
    .returning(fields)
    .executeTakeFirst()
  if (row === undefined) throw notFound()
  await notify(transaction, changedChannel, id)
  return row
}

interface WebhookRulesDependencies {
  readonly outbound: Outbound
  readonly ownsProject: (transaction: Transaction, principal: Principal, projectId: string) => Promise<boolean>
  readonly maxWebhooks: (transaction: Transaction, accountId: string) => Promise<number>
}

/** Throws `invalid_request` on an address to which nothing may be sent. */
function checkUrl({ outbound }: Pick<WebhookRulesDependencies, 'outbound'>, url: string): void {
  const problem = urlProblem(url, outbound)
  if (problem !== undefined) throw invalidRequest({ field: 'url', message: problem })
}

/** Throws `invalid_request` on another account's project, and `forbidden` on a project that the key may not use. */
async function checkProject(
  { ownsProject }: Pick<WebhookRulesDependencies, 'ownsProject'>,
  transaction: Transaction,
  principal: Principal,
  projectId: string | null,
): Promise<void> {
  if (projectId === null) {
    if (principal.projectIds === null) return
    throw new ApiError('forbidden', 'This API key is bound to its projects; name one of them as project_id.')
  }
  if (!mayUseProject(principal, projectId)) {
    throw new ApiError('forbidden', 'This API key is bound to other projects.')
  }
  if (!(await ownsProject(transaction, principal, projectId))) {
    throw invalidRequest({ field: 'project_id', message: 'there is no such project' })
  }
}

/** Throws `invalid_request` at the account's limit of webhooks. Holds a lock until the transaction ends. */
async function checkLimit(
  { maxWebhooks }: Pick<WebhookRulesDependencies, 'maxWebhooks'>,
  transaction: Transaction,
  accountId: string,
): Promise<void> {
  await lockByName(transaction, `webhooks ${accountId}`)
  const max = await maxWebhooks(transaction, accountId)
  const { count } = await transaction
    .withTables<WebhooksTables>()
    .selectFrom('webhooks')
    .select(({ fn }) => fn.countAll<string>().as('count'))
    .where('account_id', '=', accountId)
    .executeTakeFirstOrThrow()
  if (Number(count) < max) return
  throw new ApiError(
    'invalid_request',
    `The account has ${max} webhooks, as many as it may have. Delete one that is not needed any more.`,
    { max_webhooks: max },
  )
}

const fields = ['id', 'url', 'events', 'project_id', 'rate', 'status', 'disabled_reason', 'created_at'] as const

/** Selects the account's webhooks that the principal may see. A key for certain projects sees only their webhooks. */
function visible(database: Database | Transaction, principal: Principal) {
  const rows = database
    .withTables<WebhooksTables>()
    .selectFrom('webhooks')
    .select(fields)
    .where('account_id', '=', principal.accountId)
  return principal.projectIds === null ? rows : rows.where('project_id', 'in', [...principal.projectIds])
}

/**
 * Returns a webhook that the principal may see. It may be deleted at any time, unless it was read with `keepWebhook`.
 * Throws `not_found`.
 */
export async function findWebhook(
  database: Database | Transaction,
  principal: Principal,
  id: string,
): Promise<Pick<Selectable<WebhooksTables['webhooks']>, (typeof fields)[number]>> {
  const row = await visible(database, principal).where('id', '=', id).executeTakeFirst()
  if (row === undefined) throw notFound()
  return row
}

/** Returns a webhook like `findWebhook`, and prevents its deletion until the transaction ends. Throws `not_found`. */
export async function keepWebhook(
  transaction: Transaction,
  principal: Principal,
  id: string,
): ReturnType<typeof findWebhook> {
  const row = await visible(transaction, principal).where('id', '=', id).forKeyShare().executeTakeFirst()
  if (row === undefined) throw notFound()
  return row
}
