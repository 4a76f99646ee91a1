import type { Middleware } from 'koa'
import { type IsTrustedProxy, isSecure } from './client-address.ts'

/** Headers of every answer. By default an answer is no page, must not be embedded by other sites, and is not cached. */
export const apiHeaders = {
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Cache-Control': 'no-store',
} as const

/** One year. Sent over HTTPS only: browsers ignore it elsewhere (RFC 6797 §8.1). */
const strictTransport = 'max-age=31536000'

/** Sets the headers first, so that middleware that serves pages can override them. */
export function securityHeaders(isTrustedProxy: IsTrustedProxy): Middleware {
  return async (ctx, next) => {
    ctx.set(apiHeaders)
    if (isSecure(ctx.req, isTrustedProxy)) ctx.set('Strict-Transport-Security', strictTransport)
    await next()
  }
}
