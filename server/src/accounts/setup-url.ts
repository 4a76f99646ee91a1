/** Returns the URL of a setup link. The token is in the fragment, which browsers do not send: it is in no log and no `Referer`. */
export function setupUrl(origin: string, token: string): string {
  return `${origin.replace(/\/+$/, '')}/setup#${token}`
}
