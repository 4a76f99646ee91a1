import type { Context, Middleware } from 'koa'
import type { z } from 'zod'
import { ApiError } from '../../contract/errors.ts'
import {
  type DeviceReason,
  deviceCodeAnswer,
  deviceCodeRequest,
  deviceTokenAnswer,
  deviceTokenRequest,
} from '../../contract/resources/device.ts'
import { answerJson } from '../../http/answer-json.ts'
import type { Audit } from '../../http/audit.ts'
import { jsonBody } from '../../http/body.ts'
import { networkOf } from '../../http/client-address.ts'
import { parseBody } from '../../http/validation.ts'
import { type AttemptLimiter, createAttemptLimiter, rememberRefusals } from '../../platform/attempts.ts'
import type { Database, Transaction } from '../../platform/database.ts'
import { type DeviceLogins, firstInterval, lifetime, type Polled } from './logins.ts'

export interface DeviceEndpointsDependencies {
  readonly database: Database
  readonly logins: Pick<DeviceLogins, 'begin' | 'poll'>
  /** Makes the key of an approved login. */
  readonly makeKey: (
    transaction: Transaction,
    accountId: string,
    machine: string,
  ) => Promise<{ id: string; key: string }>
  readonly audit: Audit
  /** The address of the dashboard for people. */
  readonly origin: string
}

interface State {
  readonly requestId: string
  readonly address: string
}

const windowMs = 15 * 60_000

/**
 * Answers `POST /device/code` and `POST /device/token`, by which a command begins a login and asks for its key. They are open
 * to everybody; a key is made only when a signed-in user has approved the code. Errors have the reason of RFC 8628 §3.5 in
 * `details.reason`.
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
    // In the fragment, which browsers do not send: the code is in no log and no `Referer`.
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
