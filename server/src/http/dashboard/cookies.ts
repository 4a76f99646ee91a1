import type { Context } from 'koa'

/** The longest possible life of a session. The server ends sessions earlier. */
const cookieSeconds = 30 * 24 * 60 * 60

/** Limits what is looked up for one request that carries many cookies of the same name. */
const maxTokens = 5

/**
 * The header with the second secret of a session. The page keeps that in the storage of its origin, which other ports do
 * not share, and its scripts alone can send it. A form, a link or a picture of another page cannot.
 */
export const secretHeader = 'X-Fairlead-Session'

/** Returns the cookie's name. The prefix `__Host-` ties it to this host and HTTPS; browsers refuse it over plain HTTP. */
export function cookieName(secure: boolean): string {
  return secure ? '__Host-fairlead_session' : 'fairlead_session'
}

/**
 * Returns the values of all cookies of this name, the server's own first. Pages of apps on other ports of this host can
 * add cookies of the same name but cannot replace ours. Browsers send the cookie with the shortest path last
 * (RFC 6265 §5.4), and ours has the shortest.
 */
export function tokensIn(cookies: string, name: string): readonly string[] {
  const pairs = cookies.split(';').map((pair) => pair.trim())
  return pairs
    .filter((pair) => pair.startsWith(`${name}=`))
    .map((pair) => pair.slice(name.length + 1))
    .toReversed()
    .slice(0, maxTokens)
}

/**
 * Sets the session cookie; `null` removes it. `SameSite=Strict` does not break links from other sites: the dashboard's
 * pages are static and public, and their own requests come from the same origin.
 */
export function setCookie(ctx: Pick<Context, 'append'>, token: string | null, secure: boolean): void {
  const attributes = ['Path=/', 'HttpOnly', 'SameSite=Strict', ...(secure ? ['Secure'] : [])]
  const value = `${cookieName(secure)}=${token ?? ''}`
  ctx.append('Set-Cookie', [value, `Max-Age=${token === null ? 0 : cookieSeconds}`, ...attributes].join('; '))
}
