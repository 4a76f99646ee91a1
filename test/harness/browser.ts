import { type Client, createClient } from '@fairlead/server/client'
import { createDashboardClient, type DashboardClient } from '@fairlead/server/dashboard-client'

/** Keeps cookies and says where its requests come from, as a browser on the dashboard's own pages does. */
export interface Browser {
  readonly fetch: typeof fetch
  /** The operations of /v1 under /dashboard/api. */
  readonly client: Client
  readonly dashboard: DashboardClient
  /** The value of its `Cookie` header. */
  cookie(): string
}

export function browser(url: string, cookie = ''): Browser {
  let kept = cookie
  const ask: typeof fetch = async (target, init) => {
    const headers = new Headers(init?.headers)
    headers.set('sec-fetch-site', 'same-origin')
    if (kept !== '') headers.set('cookie', kept)
    const response = await fetch(target, { ...init, headers })
    const set = response.headers.getSetCookie()[0]
    if (set !== undefined) kept = set.includes('Max-Age=0') ? '' : (set.split(';')[0] ?? '')
    return response
  }
  const baseUrl = `${url}/dashboard/api`
  return {
    fetch: ask,
    client: createClient({ baseUrl, fetch: ask, retries: 0 }),
    dashboard: createDashboardClient({ baseUrl, fetch: ask }),
    cookie: () => kept,
  }
}
