/*
 * The secrets of this browser. They are in the storage of the page's origin, which all of its tabs share. An app on
 * another port of this host is another origin and cannot read them, while the browser sends it the cookie of the session.
 */

/** The second secret of the session; the server accepts the cookie only together with it. */
const secretKey = 'fairlead-session'
/** Tells the server at the next sign-in that a user has signed in here before. */
const deviceKey = 'fairlead-device'

/** The header that carries the second secret. */
export const secretHeader = 'X-Fairlead-Session'

/** Returns the second secret of the session; empty without a session. */
export function sessionSecret(): string {
  return localStorage.getItem(secretKey) ?? ''
}

/** Returns the token of this browser for a sign-in; `undefined` before the first one. */
export function knownDevice(): string | undefined {
  return localStorage.getItem(deviceKey) ?? undefined
}

/** Keeps what the server has returned for a new session. */
export function keepSession({ secret, device }: { readonly secret: string; readonly device: string }): void {
  localStorage.setItem(secretKey, secret)
  localStorage.setItem(deviceKey, device)
}

/** Forgets the session after signing out, in all tabs. */
export function forgetSession(): void {
  localStorage.removeItem(secretKey)
}

/** Calls back when another tab has signed in (`true`) or out. */
export function watchOtherTabs(onChange: (signedIn: boolean) => void): void {
  addEventListener('storage', ({ key, newValue }) => {
    // The key is null when everything was removed.
    if (key === secretKey || key === null) onChange(newValue !== null)
  })
}
