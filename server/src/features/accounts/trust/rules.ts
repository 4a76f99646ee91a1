import { type Selectable, sql } from 'kysely'
import { invalidRequest, notFound } from '../../../contract/errors.ts'
import type { BodyOutput, ResponseBody } from '../../../contract/operations.ts'
import { mostTrustRules } from '../../../contract/trust.ts'
import { type Page, type PageRequest, readPage } from '../../../http/page.ts'
import { type Database, lockByName, type Transaction } from '../../../platform/database.ts'
import { newId } from '../../../platform/ids.ts'
import type { AccountsTables } from '../tables.ts'

export type TrustRule = Selectable<AccountsTables['trust_rules']>

export interface TrustRules {
  list(projectId: string, page: PageRequest): Promise<Page<ResponseBody<'trust.list'>>>
  /** Throws `invalid_request` when the project has reached its limit of rules. */
  create(
    transaction: Transaction,
    project: { readonly id: string; readonly accountId: string },
    rule: BodyOutput<'trust.create'>,
  ): Promise<ResponseBody<'trust.create'>>
  /** Also revokes the keys that the rule has allowed. Throws `not_found`. */
  delete(transaction: Transaction, projectId: string, id: string): Promise<void>
  ofIssuer(projectId: string, issuer: string): Promise<TrustRule[]>
  all(projectId?: string): Promise<TrustRule[]>
  /** Records the use of a rule, and keeps it until the transaction ends; false when it no longer exists. */
  use(transaction: Transaction, id: string): Promise<boolean>
}

const tablesOf = (on: Database | Transaction) => on.withTables<AccountsTables>()

export function createTrustRules({ database }: { readonly database: Database }): TrustRules {
  const rules = () => tablesOf(database).selectFrom('trust_rules').selectAll()

  return {
    async list(projectId, page) {
      const { rows, next } = await readPage(rules().where('project_id', '=', projectId), page, 'id')
      return { body: { trust: rows.map(describe) }, next }
    },

    create,

    async delete(transaction, projectId, id) {
      const { numDeletedRows } = await tablesOf(transaction)
        .deleteFrom('trust_rules')
        .where('project_id', '=', projectId)
        .where('id', '=', id)
        .executeTakeFirst()
      if (numDeletedRows !== 1n) throw notFound()
      await revokeKeysOf(transaction, id)
    },

    ofIssuer: (projectId, issuer) =>
      rules().where('project_id', '=', projectId).where('issuer', '=', issuer).orderBy('id').execute(),

    all: (projectId) =>
      rules()
        .$if(projectId !== undefined, (query) => query.where('project_id', '=', projectId ?? ''))
        .orderBy('id')
        .execute(),

    async use(transaction, id) {
      const { numUpdatedRows } = await tablesOf(transaction)
        .updateTable('trust_rules')
        .set({ last_used_at: sql<Date>`now()` })
        .where('id', '=', id)
        .executeTakeFirst()
      return numUpdatedRows === 1n
    },
  }
}

async function create(
  ...[transaction, project, rule]: Parameters<TrustRules['create']>
): Promise<ResponseBody<'trust.create'>> {
  await assertRoom(transaction, project.id)
  const { issuer, repository, repository_id, branch, tag, environment, event, workflow, claims } = rule
  const row = await tablesOf(transaction)
    .insertInto('trust_rules')
    .values({
      id: newId('trust'),
      project_id: project.id,
      account_id: project.accountId,
      issuer,
      repository: repository ?? null,
      repository_id: repository_id ?? null,
      branch: branch ?? null,
      tag: tag ?? null,
      environment: environment ?? null,
      event: event ?? null,
      workflow: workflow ?? null,
      claims: JSON.stringify(claims),
    })
    .returningAll()
    .executeTakeFirstOrThrow()
  return describe(row)
}

/** Holds a lock until the transaction ends, so that two transactions cannot both create the last rule. */
async function assertRoom(transaction: Transaction, projectId: string): Promise<void> {
  await lockByName(transaction, `trust rules of ${projectId}`)
  const { count } = await tablesOf(transaction)
    .selectFrom('trust_rules')
    .select(({ fn }) => fn.countAll<string>().as('count'))
    .where('project_id', '=', projectId)
    .executeTakeFirstOrThrow()
  if (Number(count) < mostTrustRules) return
  throw invalidRequest({
    field: 'project_id',
    message: `the project has ${mostTrustRules} rules; remove one, or use a * in one`,
  })
}

function describe({ project_id, account_id, created_at, last_used_at, ...rule }: TrustRule) {
  return {
    ...rule,
    created_at: created_at.toISOString(),
    last_used_at: last_used_at?.toISOString() ?? null,
  }
}

async function revokeKeysOf(transaction: Transaction, trustId: string): Promise<void> {
  await transaction
    .withTables<AccountsTables>()
    .updateTable('api_keys')
    .set({ revoked_at: sql<Date>`now()` })
    .where('workflow', 'is not', null)
    .where(sql<string>`workflow->>'trust_id'`, '=', trustId)
    .where('revoked_at', 'is', null)
    .where('expires_at', '>', sql<Date>`now()`)
    .execute()
}

export async function forgetWorkflowKeys(database: Database, days: number): Promise<void> {
  await database
    .withTables<AccountsTables>()
    .deleteFrom('api_keys')
    .where('workflow', 'is not', null)
    .where('expires_at', '<', sql<Date>`now() - make_interval(days => ${days})`)
    .execute()
}
