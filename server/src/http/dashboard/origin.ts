import type { Context } from 'koa'
import { ApiError } from '../../contract/errors.ts'

/**
 * Throws `forbidden` on requests from other origins (CSRF). Browsers send `Sec-Fetch-Site` over HTTPS and to localhost.
 * Over plain HTTP to another machine they do not, but they send `Origin` with every change. Another port of this host is
 * another origin.
 */
export function refuseOtherOrigins(ctx: Pick<Context, 'get'>, host: string): void {
  const site = ctx.get('Sec-Fetch-Site')
  if (site === '' ? isOrigin(ctx.get('Origin'), host) : site === 'same-origin') return
  throw new ApiError('forbidden', 'This request does not come from the dashboard.')
}

function isOrigin(origin: string, host: string): boolean {
  if (!URL.canParse(origin)) return false
  const from = new URL(origin)
  const own = `${from.protocol}//${host}`
  return URL.canParse(own) && new URL(own).host === from.host && host !== ''
}
