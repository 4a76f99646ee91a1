import { type Kysely, sql } from 'kysely'
import type { DashboardResponse } from '../contract/dashboard-operations.ts'
import type { SignedIn } from '../http/dashboard/call.ts'
import type { Database, Transaction } from '../platform/database.ts'
import { newId } from '../platform/ids.ts'
import { allScopes } from './scopes.ts'
import type { AccountsTables } from './tables.ts'
import { hashToken, newToken } from './tokens.ts'

/** Sessions of signed-in users. A session ends after 7 days without a request, and after 30 days in all. */
export interface Sessions {
  /** Begins a session and returns its token. Ends the session that the browser had before. */
  begin(transaction: Transaction, userId: string, from: SessionOrigin): Promise<{ id: string; token: string }>
  authenticate(token: string): Promise<SignedIn | undefined>
  list(userId: string): Promise<Omit<DashboardResponse<'sessions.list'>['sessions'][number], 'current'>[]>
  /** Returns false when the user has no such session. */
  end(transaction: Transaction, userId: string, id: string): Promise<boolean>
  /** Ends all sessions of the user except the given one. */
  endOthers(transaction: Transaction, userId: string, id: string): Promise<void>
  /** Removes expired sessions. */
  forget(): Promise<void>
}

export interface SessionOrigin {
  readonly address: string
  readonly userAgent: string | null
  /** The value of the browser's current session cookie. */
  readonly token: string | undefined
}

const scopes = new Set(allScopes)
const expiry = sql<Date>`now() + interval '30 days'`
const alive = sql<boolean>`expires_at > now() and last_seen_at > now() - interval '7 days'`

export function createSessions({ database }: { database: Database }): Sessions {
  const db = database.withTables<AccountsTables>()

  return {
    async begin(transaction, userId, { address, userAgent, token: previous }) {
      const tables = transaction.withTables<AccountsTables>()
      if (previous !== undefined) {
        await tables.deleteFrom('sessions').where('hash', '=', hashToken(previous)).execute()
      }
      const id = newId('session')
      const token = newToken()
      await tables
        .insertInto('sessions')
        .values({ id, user_id: userId, hash: hashToken(token), address, user_agent: userAgent, expires_at: expiry })
        .execute()
      return { id, token }
    },

    authenticate: (token) => authenticate(db, token),

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

/** Finds a valid session and notes, to the minute, when it was last used. */
async function authenticate(db: Kysely<AccountsTables>, token: string): Promise<SignedIn | undefined> {
  const row = await db
    .selectFrom('sessions')
    .innerJoin('users', 'users.id', 'sessions.user_id')
    .select([
      'sessions.id',
      'user_id',
      'email',
      'account_id',
      sql<boolean>`last_seen_at > now() - interval '1 minute'`.as('seen_recently'),
    ])
    .where('hash', '=', hashToken(token))
    .where(alive)
    .executeTakeFirst()
  if (row === undefined) return undefined
  if (!row.seen_recently) {
    await db.updateTable('sessions').set({ last_seen_at: sql<Date>`now()` }).where('id', '=', row.id).execute()
  }
  return {
    sessionId: row.id,
    principal: {
      accountId: row.account_id,
      actor: { type: 'user', id: row.user_id, name: row.email },
      scopes,
      projectIds: null,
      requestsPerHour: null,
    },
  }
}
