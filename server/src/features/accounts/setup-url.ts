/**
 * Returns the URL of a setup link. Browsers do not send its fragment, so the token appears in no log and no `Referer`.
 */
export function setupUrl(origin: string, token: string): string {
  return `${origin.replace(/\/+$/, '')}/setup#${token}`
}
