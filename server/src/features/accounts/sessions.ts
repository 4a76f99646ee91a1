import { timingSafeEqual } from 'node:crypto'
import { type Kysely, sql } from 'kysely'
import type { DashboardResponse } from '../../contract/dashboard.ts'
import type { SessionTokens, SignedIn } from '../../http/dashboard.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import { newId } from '../../platform/ids.ts'
import { accountLimits, type Plans } from '../../platform/plans.ts'
import { allScopes } from './scopes.ts'
import type { AccountsTables } from './tables.ts'
import { hashToken, newToken } from './tokens.ts'

/**
 * Sessions of signed-in users. A session ends after 7 days without a request, and after 30 days in any case.
 *
 * A session has two secrets: a cookie, which browsers also send to all other ports of the host, and a second secret,
 * which the page keeps in the storage of its origin. A request needs both.
 */
export interface Sessions {
  /**
   * Begins a session and returns its two secrets. Ends the browser's earlier session, and the oldest sessions of a user
   * who has too many.
   */
  begin(transaction: Transaction, userId: string, from: SessionOrigin): Promise<NewSession>
  authenticate(tokens: SessionTokens): Promise<SignedIn | undefined>
  list(userId: string): Promise<Omit<DashboardResponse<'sessions.list'>['sessions'][number], 'current'>[]>
  end(transaction: Transaction, userId: string, id: string): Promise<boolean>
  endOthers(transaction: Transaction, userId: string, id: string): Promise<void>
  forget(): Promise<void>
}

export interface NewSession {
  readonly id: string
  readonly token: string
  readonly secret: string
}

export interface SessionOrigin {
  readonly address: string
  readonly userAgent: string | null
  readonly previous: string | undefined
}

const scopes = new Set(allScopes)
const expiry = sql<Date>`now() + interval '30 days'`
export const alive = sql<boolean>`expires_at > now() and last_seen_at > now() - interval '7 days'`

export function createSessions({ database, plans }: { readonly database: Database; readonly plans: Plans }): Sessions {
  const db = database.withTables<AccountsTables>()

  return {
    begin: (transaction, userId, from) => begin(transaction.withTables<AccountsTables>(), plans, userId, from),

    authenticate: (tokens) => authenticate(db, plans, tokens),

    async list(userId) {
      const rows = await db
        .selectFrom('sessions')
        .select(['id', 'address', 'user_agent', 'created_at', 'last_seen_at', 'expires_at'])
        .where('user_id', '=', userId)
        .where(alive)
        .orderBy('id', 'desc')
        .execute()
      return rows.map((row) => ({
        ...row,
        created_at: row.created_at.toISOString(),
        last_seen_at: row.last_seen_at.toISOString(),
        expires_at: row.expires_at.toISOString(),
      }))
    },

    async end(transaction, userId, id) {
      const { numDeletedRows } = await transaction
        .withTables<AccountsTables>()
        .deleteFrom('sessions')
        .where('user_id', '=', userId)
        .where('id', '=', id)
        .executeTakeFirst()
      return numDeletedRows > 0n
    },

    async endOthers(transaction, userId, id) {
      await transaction
        .withTables<AccountsTables>()
        .deleteFrom('sessions')
        .where('user_id', '=', userId)
        .where('id', '<>', id)
        .execute()
    },

    async forget() {
      await db.deleteFrom('sessions').where(sql<boolean>`not (${alive})`).execute()
    },
  }
}

async function begin(
  tables: Kysely<AccountsTables>,
  plans: Plans,
  userId: string,
  { address, userAgent, previous }: SessionOrigin,
): Promise<NewSession> {
  if (previous !== undefined) await tables.deleteFrom('sessions').where('id', '=', previous).execute()
  const id = newId('session')
  const token = newToken()
  const secret = newToken()
  const hashes = { hash: hashToken(token), secret_hash: hashToken(secret) }
  await tables
    .insertInto('sessions')
    .values({ id, user_id: userId, ...hashes, address, user_agent: userAgent, expires_at: expiry })
    .execute()
  await endOldest(tables, plans, userId)
  return { id, token, secret }
}

async function endOldest(tables: Kysely<AccountsTables>, plans: Plans, userId: string): Promise<void> {
  const { plan } = await tables
    .selectFrom('users')
    .innerJoin('accounts', 'accounts.id', 'users.account_id')
    .select('plan')
    .where('users.id', '=', userId)
    .executeTakeFirstOrThrow()
  const beyond = tables
    .selectFrom('sessions')
    .select('id')
    .where('user_id', '=', userId)
    .orderBy('id', 'desc')
    .offset(accountLimits(plans, plan).sessions)
  await tables.deleteFrom('sessions').where('id', 'in', beyond).execute()
}

/** Finds the valid session of the secret and one of the cookies, and records its last use to the minute. */
async function authenticate(
  db: Kysely<AccountsTables>,
  plans: Plans,
  { cookies, secret }: SessionTokens,
): Promise<SignedIn | undefined> {
  if (cookies.length === 0 || secret === '') return undefined
  const hashes = cookies.map(hashToken)
  const rows = await db
    .selectFrom('sessions')
    .innerJoin('users', 'users.id', 'sessions.user_id')
    .innerJoin('accounts', 'accounts.id', 'users.account_id')
    .select([
      'sessions.id',
      'secret_hash',
      'user_id',
      'email',
      'account_id',
      'plan',
      sql<boolean>`last_seen_at > now() - interval '1 minute'`.as('seen_recently'),
    ])
    .where('hash', '=', sql<Buffer>`any(${hashes}::bytea[])`)
    .where(alive)
    .execute()
  const given = hashToken(secret)
  const row = rows.find(({ secret_hash }) => timingSafeEqual(secret_hash, given))
  if (row === undefined) return undefined
  if (!row.seen_recently) {
    await db.updateTable('sessions').set({ last_seen_at: sql<Date>`now()` }).where('id', '=', row.id).execute()
  }
  return {
    sessionId: row.id,
    principal: {
      accountId: row.account_id,
      credentialId: row.id,
      actor: { type: 'user', id: row.user_id, name: row.email },
      scopes,
      projectIds: null,
      workflow: null,
      requestsPerHour: accountLimits(plans, row.plan).session_requests_per_hour,
    },
  }
}
