import { type Client, createClient } from '@fairlead/server/client'
import { createDashboardClient, type DashboardClient, type DashboardResponse } from '@fairlead/server/dashboard-client'

/** Keeps cookies and the page's secrets, and sends `Sec-Fetch-Site`, as a browser on the dashboard's pages does. */
export interface Browser {
  readonly fetch: typeof fetch
  /** Calls the operations of /v1 under /dashboard/api. */
  readonly client: Client
  readonly dashboard: DashboardClient
  cookie(): string
  /** Returns the headers that prove the session: the cookie, and the secret that the page adds. */
  credentials(): { readonly cookie: string; readonly 'x-fairlead-session': string }
  /** Returns the secrets that the page keeps: the session's secret, and the secret that identifies this browser. */
  kept(): KeptSecrets
  /** Signs in as a known browser if somebody has signed in before. */
  signIn(user: { readonly email: string; readonly password: string }): Promise<DashboardResponse<'session.create'>>
}

interface KeptSecrets {
  readonly secret: string
  readonly device: string | undefined
}

export function browser(url: string, cookie = ''): Browser {
  let stored = cookie
  let kept: KeptSecrets = { secret: '', device: undefined }
  const fetchWithCookies: typeof fetch = async (target, init) => {
    const headers = new Headers(init?.headers)
    headers.set('sec-fetch-site', 'same-origin')
    if (stored !== '') headers.set('cookie', stored)
    if (kept.secret !== '') headers.set('x-fairlead-session', kept.secret)
    const response = await fetch(target, { ...init, headers })
    const set = response.headers.getSetCookie()[0]
    if (set !== undefined) stored = set.includes('Max-Age=0') ? '' : (set.split(';')[0] ?? '')
    if (set !== undefined && response.status === 200)
      kept = { ...kept, ...((await response.clone().json()) as KeptSecrets) }
    return response
  }
  const baseUrl = `${url}/dashboard/api`
  const dashboard = createDashboardClient({ baseUrl, fetch: fetchWithCookies })
  return {
    fetch: fetchWithCookies,
    client: createClient({ baseUrl, fetch: fetchWithCookies, retries: 0 }),
    dashboard,
    cookie: () => stored,
    credentials: () => ({ cookie: stored, 'x-fairlead-session': kept.secret }),
    kept: () => ({ secret: kept.secret, device: kept.device }),
    signIn: (user) => dashboard.session.create({ body: { ...user, device: kept.device } }),
  }
}
