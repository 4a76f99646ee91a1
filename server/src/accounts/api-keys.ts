import { ApiError, invalidRequest, notFound } from '../contract/errors.ts'
import type { BodyOutput, ResponseBody } from '../contract/operations.ts'
import type { Page, PageRequest } from '../http/page.ts'
import type { Transaction } from '../platform/database.ts'
import type { Totals } from '../platform/plans/totals.ts'
import type { Keys, StoredKey } from './keys.ts'
import { presetOf, presets } from './scopes.ts'

export interface ApiKeysDependencies {
  readonly keys: Keys
  readonly totals: Pick<Totals, 'assertRoom'>
  /** Resolves to true when a project belongs to the account. */
  readonly ownsProject: (transaction: Transaction, accountId: string, projectId: string) => Promise<boolean>
}

/** The operations on API keys for the users of an account. */
export interface ApiKeys {
  list(accountId: string, page: PageRequest): Promise<Page<ResponseBody<'apiKeys.list'>>>
  /**
   * Throws `invalid_request` on a project that does not belong to the account, and when the account has as many keys as
   * it may.
   */
  create(
    transaction: Transaction,
    accountId: string,
    input: BodyOutput<'apiKeys.create'>,
  ): Promise<ResponseBody<'apiKeys.create'>>
  /** Throws `not_found`. */
  revoke(transaction: Transaction, accountId: string, id: string): Promise<void>
  /** Throws `not_found`, and `invalid_request` when the key is revoked or expired and as `create` does. */
  rotate(
    transaction: Transaction,
    accountId: string,
    id: string,
    overlapHours: number,
  ): Promise<ResponseBody<'apiKeys.rotate'>>
}

const dayMs = 24 * 60 * 60 * 1000

export function createApiKeys({ keys, totals, ownsProject }: ApiKeysDependencies): ApiKeys {
  const assertRoom = (transaction: Transaction, accountId: string) =>
    totals.assertRoom(transaction, accountId, 'api_keys', () => keys.countValid(transaction, accountId))
  const checkProjects = async (transaction: Transaction, accountId: string, ids: readonly string[]): Promise<void> => {
    const owned = await Promise.all(ids.map((id) => ownsProject(transaction, accountId, id)))
    const unknown = ids.find((_, at) => owned[at] !== true)
    if (unknown !== undefined) {
      throw invalidRequest({ field: 'project_ids', message: `there is no project ${unknown}` })
    }
  }

  return {
    async list(accountId, page) {
      const { rows, next } = await keys.pageOf(accountId, page)
      return { body: { api_keys: rows.map(describe) }, next }
    },

    async create(transaction, accountId, input) {
      const projectIds = input.project_ids == null ? null : [...new Set(input.project_ids)]
      await checkProjects(transaction, accountId, projectIds ?? [])
      await assertRoom(transaction, accountId)
      const days = input.expires_in_days ?? null
      const made = await keys.create(
        {
          accountId,
          name: input.name,
          scopes: input.preset === undefined ? [...new Set(input.scopes)] : presets[input.preset],
          projectIds,
          lifeMs: days === null ? null : days * dayMs,
        },
        transaction,
      )
      return { ...describe(made), key: made.key }
    },

    async revoke(transaction, accountId, id) {
      if ((await keys.revoke(id, { accountId, within: transaction })) === undefined) throw notFound()
    },

    async rotate(transaction, accountId, id, overlapHours) {
      await assertRoom(transaction, accountId)
      const made = await keys.rotate(id, overlapHours, { accountId, within: transaction })
      if (made === undefined) throw notFound()
      if (made === 'workflow') {
        throw new ApiError(
          'invalid_request',
          'The key of a workflow run cannot be rotated: the run gets another by itself.',
        )
      }
      if (made === 'ended') {
        throw new ApiError('invalid_request', 'This API key is revoked or expired; create a new one.')
      }
      return { ...describe(made), key: made.key }
    },
  }
}

function describe(key: StoredKey): ResponseBody<'apiKeys.list'>['api_keys'][number] {
  return {
    id: key.id,
    name: key.name,
    preset: presetOf(key.scopes),
    scopes: [...key.scopes],
    project_ids: key.projectIds === null ? null : [...key.projectIds],
    hint: key.hint,
    created_at: key.createdAt.toISOString(),
    last_used_at: key.lastUsedAt?.toISOString() ?? null,
    expires_at: key.expiresAt?.toISOString() ?? null,
    revoked_at: key.revokedAt?.toISOString() ?? null,
    workflow: key.workflow,
  }
}
