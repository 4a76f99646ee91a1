import { ApiError, invalidRequest } from '../contract/errors.ts'
import { mayUseProject, type Principal } from '../http/principal.ts'
import { lockByName, type Transaction } from '../platform/database.ts'
import type { Outbound } from '../platform/outbound.ts'
import { urlProblem } from './endpoint-url.ts'
import type { WebhooksTables } from './tables.ts'

export interface WebhookRulesDependencies {
  readonly outbound: Outbound
  /** True when the principal's account has this project. */
  readonly ownsProject: (transaction: Transaction, principal: Principal, projectId: string) => Promise<boolean>
  /** Returns how many webhooks an account may have. */
  readonly maxWebhooks: (transaction: Transaction, accountId: string) => Promise<number>
}

/** Throws `invalid_request` on an address to which nothing may be sent. */
export function checkUrl({ outbound }: Pick<WebhookRulesDependencies, 'outbound'>, url: string): void {
  const problem = urlProblem(url, outbound)
  if (problem !== undefined) throw invalidRequest({ field: 'url', message: problem })
}

/** Throws `invalid_request` on a project of another account, and `forbidden` on one that the API key may not use. */
export async function checkProject(
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

/** Throws `invalid_request` when the account has as many webhooks as it may. The lock holds until the transaction ends. */
export async function checkLimit(
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
