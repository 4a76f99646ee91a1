/**
 * Browsers send a host's cookies to all of its ports, so apps on other ports would see Fairlead's cookies and could
 * overwrite them. All cookies of Fairlead have this prefix, after `__Host-` if present, and none passes the gateway in
 * either direction.
 */
const FAIRLEAD_COOKIE_PREFIX = 'fairlead_'

const RESERVED = new RegExp(`^(?:__Host-|__Secure-)?${FAIRLEAD_COOKIE_PREFIX}`, 'i')

/** Returns the value of a Cookie header without Fairlead's cookies; null when nothing remains. */
export function appCookies(value: string): string | null {
  if (!mentionsFairlead(value)) return value
  const kept = value.split(';').filter((pair) => !RESERVED.test(pair.trim()))
  const rest = kept.join(';').trim()
  return rest === '' ? null : rest
}

export function setsFairleadCookie(value: string): boolean {
  // Browsers send a cookie without a name (`=a=b`) back as `a=b`.
  return mentionsFairlead(value) && RESERVED.test(value.replace(/^[\s=]+/, ''))
}

function mentionsFairlead(value: string): boolean {
  return value.toLowerCase().includes(FAIRLEAD_COOKIE_PREFIX)
}

/** True when a Set-Cookie header may name a domain. */
export const namesDomain = (value: string): boolean => /;\s*domain/i.test(value)

/**
 * Removes a domain above `hostname` from a Set-Cookie header, because other owners have hosts there. The cookie then
 * applies only to `hostname`.
 */
export function withoutDomainAbove(value: string, hostname: string): string {
  const [pair = '', ...attributes] = value.split(';')
  const kept = attributes.filter((attribute) => {
    const [name, domain = ''] = attribute
      .toLowerCase()
      .split('=', 2)
      .map((part) => part.trim())
    return name !== 'domain' || domain === '' || !hostname.endsWith(`.${domain.replace(/^\./, '')}`)
  })
  return [pair, ...kept].join(';')
}

export function cookieNamed(header: string | undefined, name: string): string | null {
  const pair = header?.split(';').find((each) => each.trim().startsWith(`${name}=`))
  return pair === undefined ? null : pair.trim().slice(name.length + 1)
}
