export interface Target {
  /** Origin form (`/path?query`) or `*`. */
  readonly path: string
  /** The host of the absolute form, which takes precedence over the Host header (RFC 9112 §3.2.2); null without one. */
  readonly authority: string | null
}

const ABSOLUTE_FORM = /^https?:\/\/([^/?#@]+)((?:[/?][^#]*)?)$/i

/** Parses the request target (RFC 9112 §3.2). Returns null for forms that the gateway cannot answer. */
export function parseTarget(target: string): Target | null {
  if (target.startsWith('/') || target === '*') return { path: target, authority: null }
  const absolute = ABSOLUTE_FORM.exec(target)
  const [, authority, rest] = absolute ?? []
  if (authority === undefined || rest === undefined) return null
  return { path: rest.startsWith('/') ? rest : `/${rest}`, authority }
}

/** Returns the name in a Host header as routes store it: in lower case, without the port and the root's dot. */
export function hostnameOf(authority: string): string {
  const portAt = authority.startsWith('[') ? authority.indexOf(':', authority.indexOf(']')) : authority.indexOf(':')
  const name = (portAt === -1 ? authority : authority.slice(0, portAt)).toLowerCase()
  return name.endsWith('.') ? name.slice(0, -1) : name
}
