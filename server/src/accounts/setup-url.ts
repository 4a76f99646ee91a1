/**
 * Where a setup link leads. The token stands behind the `#`, which browsers send to nobody: it is in no log of a proxy
 * and in no `Referer`.
 */
export function setupUrl(origin: string, token: string): string {
  return `${origin.replace(/\/+$/, '')}/setup#${token}`
}
