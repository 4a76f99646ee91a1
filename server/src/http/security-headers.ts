import type { Middleware } from 'koa'
import { type IsTrustedProxy, isSecure } from './client-address.ts'

/** On every answer: nothing in it is a page, belongs into another site, or may be kept. */
export const apiHeaders = {
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Cache-Control': 'no-store',
} as const

/** For a year; only said over HTTPS, where browsers believe it (RFC 6797 §7.2). */
const strictTransport = 'max-age=31536000'

/**
 * Sets the headers before anything else is done, so that what serves pages can widen them.
 */
export function securityHeaders(isTrustedProxy: IsTrustedProxy): Middleware {
  return async (ctx, next) => {
    ctx.set(apiHeaders)
    if (isSecure(ctx.req, isTrustedProxy)) ctx.set('Strict-Transport-Security', strictTransport)
    await next()
  }
}
