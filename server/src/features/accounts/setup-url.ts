/** Browsers do not send the fragment, so the token appears in no log and no `Referer`. */
export function setupUrl(origin: string, token: string): string {
  return `${origin.replace(/\/+$/, '')}/setup#${token}`
}
