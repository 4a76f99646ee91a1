import { randomInt } from 'node:crypto'
import type { Context, Middleware } from 'koa'
import { type Selectable, sql } from 'kysely'
import type { z } from 'zod'
import {
  type DeviceReason,
  deviceCodeAnswer,
  deviceCodeRequest,
  deviceTokenAnswer,
  deviceTokenRequest,
} from '../../contract/device-login.ts'
import { ApiError, notFound } from '../../contract/errors.ts'
import { answerJson, jsonBody } from '../../http/bodies.ts'
import type { Audit } from '../../http/call.ts'
import { networkOf } from '../../http/client-address.ts'
import type { DashboardHandlers } from '../../http/dashboard.ts'
import { parseBody } from '../../http/validation.ts'
import { type AttemptLimiter, createAttemptLimiter, rememberRefusals } from '../../platform/attempts.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import { type Attempts, type RecordEntry, type SessionUser, userOf } from './sign-in-attempts.ts'
import type { AccountsTables } from './tables.ts'
import { hashToken, newToken } from './tokens.ts'

export interface DeviceHandlersDependencies {
  readonly database: Database
  readonly logins: Pick<DeviceLogins, 'waiting' | 'decide'>
  readonly attempts: Pick<Attempts, 'deviceCode'>
  /** Throws `invalid_request` when the account has reached its limit of keys. */
  readonly assertRoom: (transaction: Transaction, accountId: string) => Promise<void>
  readonly record: RecordEntry
}

type DeviceHandlers = Pick<DashboardHandlers, 'device.check' | 'device.approve' | 'device.deny'>

export function deviceHandlers(dependencies: DeviceHandlersDependencies): DeviceHandlers {
  const { logins, attempts } = dependencies
  return {
    'device.check': async (call) => {
      const giveBack = await attempts.deviceCode(call, call.signedIn.principal.actor.id)
      const login = await logins.waiting(call.body.user_code)
      if (login === undefined) throw notFound()
      await giveBack()
      return {
        user_code: readUserCode(call.body.user_code) ?? '',
        name: login.name,
        address: login.address,
        preset: 'full',
        created_at: login.created_at.toISOString(),
        expires_at: login.expires_at.toISOString(),
      }
    },
    'device.approve': decide(dependencies, 'device.approve'),
    'device.deny': decide(dependencies, 'device.deny'),
  }
}

function decide<Name extends 'device.approve' | 'device.deny'>(
  { database, logins, attempts, assertRoom, record }: DeviceHandlersDependencies,
  operation: Name,
): DeviceHandlers['device.approve'] {
  return async (call) => {
    const user = userOf(call.signedIn)
    const approved = operation === 'device.approve'
    const giveBack = await attempts.deviceCode(call, user.id)
    const decided = await database.transaction().execute(async (transaction) => {
      if (approved) await assertRoom(transaction, user.accountId)
      const login = await logins.decide(transaction, call.body.user_code, approved ? user.id : null)
      if (login !== undefined) await record(transaction, call.request, { operation, accountId: user.accountId, user })
      return login
    })
    if (decided === undefined) throw notFound()
    await giveBack()
    return undefined
  }
}

export interface DeviceEndpointsDependencies {
  readonly database: Database
  readonly logins: Pick<DeviceLogins, 'begin' | 'poll'>
  readonly makeKey: (
    transaction: Transaction,
    accountId: string,
    machine: string,
  ) => Promise<{ id: string; key: string }>
  readonly audit: Audit
  readonly origin: string
}

interface State {
  readonly requestId: string
  readonly address: string
}

const windowMs = 15 * 60_000

/**
 * Answers `POST /device/code` and `POST /device/token`, with which a command begins a login and polls for its key.
 * Anybody may call them: a key is created only after a signed-in user has approved the code. Errors have the reason of
 * RFC 8628 §3.5 in `details.reason`.
 */
export function deviceEndpoints(dependencies: DeviceEndpointsDependencies): Middleware<State> {
  const { database } = dependencies
  const begun = createAttemptLimiter(database, { name: 'device login by address', most: 60, windowMs })
  const wrong = rememberRefusals(createAttemptLimiter(database, { name: 'device code by address', most: 60, windowMs }))
  const readBody = jsonBody()
  return async (ctx, next) => {
    if (ctx.method !== 'POST') return next()
    ctx.set('Cache-Control', 'no-store')
    await readBody(ctx, async () => undefined)
    if (ctx.path === '/device/code') return answerCode(ctx, dependencies, begun)
    return answerToken(ctx, dependencies, wrong)
  }
}

type Limiter = Pick<AttemptLimiter, 'take'>

async function answerCode(
  ctx: Context & { state: State },
  { logins, origin }: DeviceEndpointsDependencies,
  begun: Limiter,
): Promise<void> {
  const { name } = parseBody(deviceCodeRequest, ctx.request.body) as z.output<typeof deviceCodeRequest>
  const { address } = ctx.state
  await count(ctx, begun, 'Too many logins were begun from this address.')
  const { deviceCode, userCode } = await logins.begin({ name, address })
  const page = `${origin.replace(/\/+$/, '')}/device`
  const answer = deviceCodeAnswer.parse({
    device_code: deviceCode,
    user_code: userCode,
    verification_uri: page,
    // Browsers do not send the fragment, so the code appears in no log and no `Referer`.
    verification_uri_complete: `${page}#${userCode}`,
    expires_in: lifetime,
    interval: firstInterval,
  })
  answerJson(ctx, answer)
}

async function answerToken(
  ctx: Context & { state: State },
  { database, logins, makeKey, audit }: DeviceEndpointsDependencies,
  wrong: Limiter,
): Promise<void> {
  const { device_code } = parseBody(deviceTokenRequest, ctx.request.body) as z.output<typeof deviceTokenRequest>
  const outcome = await database.transaction().execute(async (transaction): Promise<Polled | string> => {
    const polled = await logins.poll(transaction, device_code)
    if (polled.state !== 'approved') return polled
    const { user } = polled
    const { id, key } = await makeKey(transaction, user.accountId, polled.name)
    await audit(transaction, {
      accountId: user.accountId,
      actor: { type: 'user', id: user.id, name: user.email },
      address: ctx.state.address,
      requestId: ctx.state.requestId,
      operation: 'device.token',
      projectId: null,
      resourceId: id,
    })
    return key
  })
  if (typeof outcome === 'string') {
    answerJson(ctx, deviceTokenAnswer.parse({ api_key: outcome }))
    return
  }
  if (outcome.state === 'unknown') await count(ctx, wrong, 'Too many codes that are not valid came from this address.')
  throw refusals[outcome.state as keyof typeof refusals]()
}

async function count(ctx: Context & { state: State }, limiter: Limiter, message: string): Promise<void> {
  const retryAfter = await limiter.take(networkOf(ctx.state.address))
  if (retryAfter === undefined) return
  ctx.set('Retry-After', String(retryAfter))
  throw new ApiError('rate_limit_exceeded', `${message} Try again in ${retryAfter} s.`, { retry_after: retryAfter })
}

const refusal = (reason: DeviceReason, message: string) => () => new ApiError('invalid_request', message, { reason })

const refusals = {
  pending: refusal('authorization_pending', 'Nobody has approved this login yet.'),
  'too early': refusal('slow_down', 'This login was asked for too early. Wait 5 seconds longer between two requests.'),
  denied: refusal('access_denied', 'The login was refused in the dashboard.'),
  unknown: refusal('expired_token', 'The code has expired or was used. Begin the login again.'),
}

/** The first interval between two polls, in seconds (RFC 8628 §3.2). */
const firstInterval = 5
/** The lifetime of the codes, in seconds. */
const lifetime = 600
/** The seconds that each early poll adds to the interval (RFC 8628 §3.5). */
const slowDown = 5
const longestInterval = 60

export type DeviceLogin = Selectable<AccountsTables['device_logins']>

/** Command-line logins that wait for a user's decision. Both codes are stored as hashes. */
interface DeviceLogins {
  /** Returns the secret code of the command, and the code that the command shows to the user. */
  begin(from: { readonly name: string; readonly address: string }): Promise<{ deviceCode: string; userCode: string }>
  /** Returns the undecided login with this user code, which may be typed in any form. */
  waiting(userCode: string): Promise<DeviceLogin | undefined>
  /** Approves a login for a user; `null` refuses it. Returns `undefined` when no undecided login has this code. */
  decide(transaction: Transaction, userCode: string, userId: string | null): Promise<DeviceLogin | undefined>
  /** Returns the decision on a login, and deletes a decided login: only one of two concurrent polls gets it. */
  poll(transaction: Transaction, deviceCode: string): Promise<Polled>
  forget(): Promise<void>
}

type Polled =
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
        // Otherwise another login has this code.
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

/** Only consonants: codes spell no words, are easy to type, and have no 0 and O to confuse (RFC 8628 §6.1). */
const letters = 'BCDFGHJKLMNPQRSTVWXZ'
const length = 8

/** Returns a user code such as `WDJB-MJHT`: 34 random bits, which protect a login for ten minutes. */
function newUserCode(): string {
  const code = Array.from({ length }, () => letters[randomInt(letters.length)]).join('')
  return `${code.slice(0, 4)}-${code.slice(4)}`
}

/** Returns a typed code in its stored form; `undefined` when it is not well-formed. */
function readUserCode(given: string): string | undefined {
  const code = given.toUpperCase().replace(/[\s-]/g, '')
  if (code.length !== length || [...code].some((letter) => !letters.includes(letter))) return undefined
  return `${code.slice(0, 4)}-${code.slice(4)}`
}
