import { type Client, createClient } from '@fairlead/server/client'
import { createDashboardClient, type DashboardClient } from '@fairlead/server/dashboard-client'

/** Keeps cookies and sends `Sec-Fetch-Site`, as a browser on the dashboard's own pages does. */
export interface Browser {
  readonly fetch: typeof fetch
  /** The operations of /v1 under /dashboard/api. */
  readonly client: Client
  readonly dashboard: DashboardClient
  /** Returns the value of the `Cookie` header. */
  cookie(): string
}

export function browser(url: string, cookie = ''): Browser {
  let stored = cookie
  const fetchWithCookies: typeof fetch = async (target, init) => {
    const headers = new Headers(init?.headers)
    headers.set('sec-fetch-site', 'same-origin')
    if (stored !== '') headers.set('cookie', stored)
    const response = await fetch(target, { ...init, headers })
    const set = response.headers.getSetCookie()[0]
    if (set !== undefined) stored = set.includes('Max-Age=0') ? '' : (set.split(';')[0] ?? '')
    return response
  }
  const baseUrl = `${url}/dashboard/api`
  return {
    fetch: fetchWithCookies,
    client: createClient({ baseUrl, fetch: fetchWithCookies, retries: 0 }),
    dashboard: createDashboardClient({ baseUrl, fetch: fetchWithCookies }),
    cookie: () => stored,
  }
}
