import { createHash, randomInt } from 'node:crypto'
import { crc32 } from 'node:zlib'
import { type Selectable, sql } from 'kysely'
import { ApiError, invalidRequest, notFound } from '../../contract/errors.ts'
import type { BodyOutput, ResponseBody } from '../../contract/operations.ts'
import type { Scope } from '../../contract/routes.ts'
import type { WorkflowRun } from '../../contract/trust.ts'
import { type Page, type PageRequest, readPage } from '../../http/page.ts'
import type { Totals } from '../../platform/account-limits.ts'
import { type Database, fromNow, type Transaction } from '../../platform/database.ts'
import { newId } from '../../platform/ids.ts'
import { presetOf, presets } from './scopes.ts'
import type { AccountsTables } from './tables.ts'

export interface NewKey {
  readonly accountId: string
  readonly name: string
  readonly scopes: readonly Scope[]
  /** The projects that the key is bound to; `null` for all projects of the account. */
  readonly projectIds: readonly string[] | null
  /** The lifetime; `null`, the default, for a key that does not expire. */
  readonly lifeMs?: number | null
  readonly workflow?: WorkflowRun | null
}

export interface StoredKey {
  readonly id: string
  readonly accountId: string
  readonly name: string
  readonly hint: string
  readonly scopes: readonly Scope[]
  readonly projectIds: readonly string[] | null
  readonly createdAt: Date
  readonly lastUsedAt: Date | null
  readonly expiresAt: Date | null
  readonly revokedAt: Date | null
  readonly workflow: WorkflowRun | null
}

export interface CreatedKey extends StoredKey {
  readonly key: string
}

/** The stored API keys. With `within`, a change is part of that transaction. */
export interface Keys {
  create(key: NewKey, within?: Transaction): Promise<CreatedKey>
  list(): Promise<StoredKey[]>
  /** Counts the valid keys of an account, without the keys of workflows. */
  countValid(on: Database | Transaction, accountId: string): Promise<number>
  pageOf(accountId: string, page: PageRequest): Promise<{ rows: readonly StoredKey[]; next: string | null }>
  /** Revokes a key at once on every server. Returns the key; `undefined` when there is no such key. */
  revoke(id: string, options?: OwnKey): Promise<StoredKey | undefined>
  /**
   * Creates a key with the same name, rights and lifetime; the old key remains valid for the overlap. Returns
   * `undefined` when there is no such key, `'ended'` for a revoked or expired key, and `'workflow'` for a key of a
   * workflow run: a new key would outlive the run and count towards no limit.
   */
  rotate(id: string, overlapHours: number, options?: OwnKey): Promise<CreatedKey | 'ended' | 'workflow' | undefined>
}

export interface OwnKey {
  readonly accountId?: string
  readonly within?: Transaction
}

/** The length of the stored beginning, which helps users to recognise a key. 26 random characters stay secret. */
const hintLength = 'fl_'.length + 4

const fields = [
  'id',
  'account_id',
  'name',
  'hint',
  'scopes',
  'project_ids',
  'created_at',
  'last_used_at',
  'expires_at',
  'revoked_at',
  'workflow',
] as const

export function createKeys({ database }: { database: Database }): Keys {
  const tables = (within: Transaction | undefined) => (within ?? database).withTables<AccountsTables>()

  const create: Keys['create'] = async ({ accountId, name, scopes, projectIds, lifeMs, workflow }, within) => {
    const key = generateKey()
    const values = {
      id: newId('key'),
      account_id: accountId,
      name,
      hash: hashKey(key),
      hint: key.slice(0, hintLength),
      scopes: [...scopes],
      project_ids: projectIds === null ? null : [...projectIds],
      expires_at: lifeMs == null ? null : fromNow(lifeMs),
      workflow: workflow == null ? null : JSON.stringify(workflow),
    }
    const row = await tables(within).insertInto('api_keys').values(values).returning(fields).executeTakeFirstOrThrow()
    return { ...fromRow(row), key }
  }

  const change = (id: string, { accountId, within }: OwnKey) => {
    const all = tables(within).updateTable('api_keys').where('id', '=', id)
    return accountId === undefined ? all : all.where('account_id', '=', accountId)
  }

  return {
    create,

    list: async () =>
      (await tables(undefined).selectFrom('api_keys').select(fields).orderBy('id').execute()).map(fromRow),

    async pageOf(accountId, page) {
      const own = tables(undefined).selectFrom('api_keys').select(fields).where('account_id', '=', accountId)
      const { rows, next } = await readPage(own, page, 'id')
      return { rows: rows.map(fromRow), next }
    },

    countValid,

    async revoke(id, options = {}) {
      const row = await change(id, options)
        .set({ revoked_at: sql<Date>`coalesce(revoked_at, now())` })
        .returning(fields)
        .executeTakeFirst()
      return row && fromRow(row)
    },

    async rotate(id, overlapHours, options = {}) {
      const old = await lockKey(options.within ?? database, id, options.accountId)
      if (old === undefined) return undefined
      if (old.ended) return 'ended'
      if (old.workflow !== null) return 'workflow'
      const lifeMs = old.life === null ? null : old.life * 1000
      const made = await create({ ...fromRow(old), lifeMs }, options.within)
      const until = sql<Date>`least(expires_at, now() + make_interval(hours => ${overlapHours}))`
      await change(id, options).set({ expires_at: until }).execute()
      return made
    },
  }
}

async function countValid(on: Database | Transaction, accountId: string): Promise<number> {
  const { count } = await on
    .withTables<AccountsTables>()
    .selectFrom('api_keys')
    .select(({ fn }) => fn.countAll<string>().as('count'))
    .where('account_id', '=', accountId)
    .where('revoked_at', 'is', null)
    .where('workflow', 'is', null)
    .where((where) => where.or([where('expires_at', 'is', null), where('expires_at', '>', sql<Date>`now()`)]))
    .executeTakeFirstOrThrow()
  return Number(count)
}

type KeyRow = Selectable<AccountsTables['api_keys']>

/** Locks a key's row and returns it. `life` is the key's full lifetime in seconds; `null` when it does not expire. */
async function lockKey(
  database: Database,
  id: string,
  accountId: string | undefined,
): Promise<(KeyRow & { ended: boolean; life: number | null }) | undefined> {
  const { rows } = await sql<KeyRow & { ended: boolean; life: number | null }>`
    select *, revoked_at is not null or coalesce(expires_at <= now(), false) as ended,
      extract(epoch from expires_at - created_at)::float8 as life
    from api_keys where id = ${id} and account_id = coalesce(${accountId ?? null}, account_id) for update
  `.execute(database)
  return rows[0]
}

function fromRow(row: Omit<KeyRow, 'hash'>): StoredKey {
  return {
    id: row.id,
    accountId: row.account_id,
    name: row.name,
    hint: row.hint,
    scopes: row.scopes,
    projectIds: row.project_ids,
    createdAt: row.created_at,
    lastUsedAt: row.last_used_at,
    expiresAt: row.expires_at,
    revokedAt: row.revoked_at,
    workflow: row.workflow,
  }
}

const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const form = /^fl_([0-9A-Za-z]{30})([0-9A-Za-z]{6})$/

/** Generates an API key: `fl_`, 30 random base62 characters, and 6 of their CRC32, which reveals typing errors. */
export function generateKey(): string {
  const random = Array.from({ length: 30 }, () => alphabet[randomInt(62)]).join('')
  return `fl_${random}${checksum(random)}`
}

/** True when the form and the checksum are right; the key may not exist. */
export function isWellFormedKey(key: string): boolean {
  const parts = form.exec(key)
  return parts !== null && checksum(parts[1] ?? '') === parts[2]
}

/** Returns the stored hash. A fast hash is enough for a key with 178 bits of entropy. */
export function hashKey(key: string): Buffer {
  return createHash('sha256').update(key).digest()
}

function checksum(value: string): string {
  let rest = crc32(value)
  let digits = ''
  for (let i = 0; i < 6; i++) {
    digits = alphabet[rest % 62] + digits
    rest = Math.floor(rest / 62)
  }
  return digits
}

export interface ApiKeysDependencies {
  readonly keys: Keys
  readonly totals: Pick<Totals, 'assertRoom'>
  readonly ownsProject: (transaction: Transaction, accountId: string, projectId: string) => Promise<boolean>
}

export interface ApiKeys {
  list(accountId: string, page: PageRequest): Promise<Page<ResponseBody<'apiKeys.list'>>>
  /** Throws `invalid_request` on a project of another account, and when the account has too many keys. */
  create(
    transaction: Transaction,
    accountId: string,
    input: BodyOutput<'apiKeys.create'>,
  ): Promise<ResponseBody<'apiKeys.create'>>
  /** Throws `not_found`. */
  revoke(transaction: Transaction, accountId: string, id: string): Promise<void>
  /** Throws `not_found`, `invalid_request` when the key is revoked or expired, and the errors of `create`. */
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
          'The key of a workflow run cannot be rotated: the run gets another key automatically.',
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
