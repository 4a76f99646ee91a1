import { type Selectable, sql } from 'kysely'
import type { Database, Transaction } from '../../platform/database.ts'
import type { SessionUser } from '../sign-in/record.ts'
import type { AccountsTables } from '../tables.ts'
import { hashToken, newToken } from '../tokens.ts'
import { newUserCode, readUserCode } from './user-code.ts'

/** Seconds between two questions of a command, at first (RFC 8628 §3.2). */
export const firstInterval = 5
/** Seconds that codes are valid. */
export const lifetime = 600
/** Seconds that are added to the interval for each question that comes too early (RFC 8628 §3.5). */
const slowDown = 5
const longestInterval = 60

export type DeviceLogin = Selectable<AccountsTables['device_logins']>

/** Logins of commands that wait for a person. Both codes are stored as hashes. */
export interface DeviceLogins {
  /** Begins a login. Returns the code of the command, and the one that it shows. */
  begin(from: { readonly name: string; readonly address: string }): Promise<{ deviceCode: string; userCode: string }>
  /** Returns the login that waits under a code as somebody typed it. */
  waiting(userCode: string): Promise<DeviceLogin | undefined>
  /** Decides a login that waits; `null` refuses it. Returns undefined when none waits under this code. */
  decide(transaction: Transaction, userCode: string, userId: string | null): Promise<DeviceLogin | undefined>
  /**
   * Asks for the decision on a login and uses it up, if there is one. Of two questions at a time, one gets the decision.
   */
  poll(transaction: Transaction, deviceCode: string): Promise<Polled>
  /** Removes expired logins. */
  forget(): Promise<void>
}

export type Polled =
  | { readonly state: 'unknown' | 'pending' | 'too early' | 'denied' }
  | { readonly state: 'approved'; readonly name: string; readonly user: SessionUser }

const alive = sql<boolean>`expires_at > now()`

export function createDeviceLogins({ database }: { readonly database: Database }): DeviceLogins {
  const db = database.withTables<AccountsTables>()
  return {
    async begin({ name, address }) {
      const deviceCode = newToken()
      for (;;) {
        const userCode = newUserCode()
        const { numInsertedOrUpdatedRows } = await db
          .insertInto('device_logins')
          .values({
            device_hash: hashToken(deviceCode),
            user_hash: hashToken(userCode),
            name,
            address,
            interval_seconds: firstInterval,
            expires_at: sql<Date>`now() + make_interval(secs => ${lifetime})`,
          })
          .onConflict((conflict) => conflict.column('user_hash').doNothing())
          .executeTakeFirst()
        // Another login has this code.
        if (numInsertedOrUpdatedRows !== 0n) return { deviceCode, userCode }
      }
    },

    async waiting(userCode) {
      const code = readUserCode(userCode)
      if (code === undefined) return undefined
      return db
        .selectFrom('device_logins')
        .selectAll()
        .where('user_hash', '=', hashToken(code))
        .where('decided_at', 'is', null)
        .where(alive)
        .executeTakeFirst()
    },

    async decide(transaction, userCode, userId) {
      const code = readUserCode(userCode)
      if (code === undefined) return undefined
      return transaction
        .withTables<AccountsTables>()
        .updateTable('device_logins')
        .set({ decided_at: sql<Date>`now()`, user_id: userId })
        .where('user_hash', '=', hashToken(code))
        .where('decided_at', 'is', null)
        .where(alive)
        .returningAll()
        .executeTakeFirst()
    },

    poll: (transaction, deviceCode) => poll(transaction, hashToken(deviceCode)),

    async forget() {
      await db.deleteFrom('device_logins').where(sql<boolean>`not (${alive})`).execute()
    },
  }
}

async function poll(transaction: Transaction, hash: Buffer): Promise<Polled> {
  const tables = transaction.withTables<AccountsTables>()
  const login = await tables
    .selectFrom('device_logins')
    .selectAll()
    .select(sql<boolean>`coalesce(polled_at + make_interval(secs => interval_seconds) > now(), false)`.as('early'))
    .where('device_hash', '=', hash)
    .where(alive)
    .forUpdate()
    .executeTakeFirst()
  if (login === undefined) return { state: 'unknown' }
  const own = tables.updateTable('device_logins').where('device_hash', '=', hash)
  if (login.early) {
    const interval_seconds = Math.min(login.interval_seconds + slowDown, longestInterval)
    await own.set({ polled_at: sql<Date>`now()`, interval_seconds }).execute()
    return { state: 'too early' }
  }
  if (login.decided_at === null) {
    await own.set({ polled_at: sql<Date>`now()` }).execute()
    return { state: 'pending' }
  }
  await tables.deleteFrom('device_logins').where('device_hash', '=', hash).execute()
  if (login.user_id === null) return { state: 'denied' }
  const user = await tables
    .selectFrom('users')
    .select(['id', 'email', 'account_id as accountId'])
    .where('id', '=', login.user_id)
    .executeTakeFirstOrThrow()
  return { state: 'approved', name: login.name, user }
}
