import type { Middleware } from 'koa'

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
 * `isTrustedProxy` tells whether to believe a peer's `X-Forwarded-Proto`: TLS ends at a proxy in front.
 */
export function securityHeaders(isTrustedProxy: (address: string) => boolean): Middleware {
  return async (ctx, next) => {
    ctx.set(apiHeaders)
    const peer = ctx.req.socket.remoteAddress
    if (ctx.get('X-Forwarded-Proto') === 'https' && peer !== undefined && isTrustedProxy(peer)) {
      ctx.set('Strict-Transport-Security', strictTransport)
    }
    await next()
  }
}
