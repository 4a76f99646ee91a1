import type { Context, Middleware } from 'koa'
import { z } from 'zod'
import { ApiError } from '../contract/errors.ts'
import { required } from '../contract/fields.ts'
import { countFailure, type FailureLimiter, type KeyAccess, unknownKey } from './authentication.ts'
import { answerJson, jsonBody } from './bodies.ts'
import type { Principal } from './principal.ts'
import { parseBody } from './validation.ts'

interface From {
  readonly address: string
  readonly requestId: string
}

export interface TokenExchange {
  /** Throws `unauthorized` for an invalid token, `forbidden` for a token that the project does not trust. */
  exchange(
    given: z.output<typeof tokenRequest>,
    from: From,
  ): Promise<{ readonly api_key: string; readonly expires_at: string }>
  /** Throws `forbidden` for a key that was not exchanged. */
  end(principal: Principal, from: From): Promise<void>
}

/** Larger than any token of a workflow run, and small enough for a request header. */
const longestToken = 16_384

const tokenRequest = z.object({
  token: z.string(required('a string')).max(longestToken, `must be at most ${longestToken} characters`),
  project_id: z.string(required('a string')).max(100, 'must be the id of a project'),
})

/** Outside /v1, where every request has a key. */
export const tokenPath = '/oidc/token'

/** `POST` exchanges a token for a key, `DELETE` ends that key. Failed requests are limited by address. */
export function oidcToken(exchange: TokenExchange, keys: KeyAccess, failures: FailureLimiter): Middleware {
  const readBody = jsonBody()

  const post = async (ctx: Context, from: From): Promise<void> => {
    await readBody(ctx, async () => undefined)
    const given = parseBody(tokenRequest, ctx.request.body) as z.output<typeof tokenRequest>
    const made = await exchange.exchange(given, from)
    ctx.status = 201
    answerJson(ctx, made)
  }

  const end = async (ctx: Context, from: From): Promise<void> => {
    const principal = await keys.authenticate(ctx.get('Authorization'))
    if (principal === undefined) throw unknownKey()
    await exchange.end(principal, from)
    ctx.status = 204
  }

  return async (ctx, next) => {
    const handle = { POST: post, DELETE: end }[ctx.method]
    if (handle === undefined) return next()
    ctx.set('Cache-Control', 'no-store')
    const { address, requestId } = ctx.state as From
    try {
      await handle(ctx, { address, requestId })
    } catch (error) {
      if (!(error instanceof ApiError)) throw error
      if (error.code === 'rate_limit_exceeded') ctx.set('Retry-After', String(error.details['retry_after']))
      else await countFailure(ctx, failures, address)
      throw error
    }
  }
}
