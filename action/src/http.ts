import type { HttpClient } from '@actions/http-client'
import type { Environment } from './event.ts'

/**
 * `fetch` through the proxy that the runner's environment names (`https_proxy`, `http_proxy`, `no_proxy`), which Node's
 * own does only when told so at its start. The client behind it is large, and loaded where there is a proxy.
 */
export function createProxiedFetch(env: Environment): typeof fetch {
  const variables = ['https_proxy', 'HTTPS_PROXY', 'http_proxy', 'HTTP_PROXY']
  if (!variables.some((variable) => env[variable])) return fetch
  // One for each origin: it keeps one proxy for all that it is asked.
  const clients = new Map<string, HttpClient>()
  return async (input, init) => {
    const { href, origin } = new URL(input instanceof Request ? input.url : input)
    // In the same file, and evaluated only now: a second file would take the licences of this one from ncc.
    const { HttpClient } = await import(/* webpackMode: "eager" */ '@actions/http-client')
    const client = clients.get(origin) ?? new HttpClient()
    clients.set(origin, client)
    const dispatcher = client.getAgentDispatcher(href)
    if (dispatcher === undefined) return fetch(input, init)
    // The types are of two versions of undici; what they are used for is the same in both.
    return fetch(input, { ...init, dispatcher: dispatcher as unknown as NonNullable<RequestInit['dispatcher']> })
  }
}

/** The same `fetch`, in which no answer takes longer than this, its body included. */
export function within(milliseconds: number, send: typeof fetch): typeof fetch {
  return (input, init) => {
    const limit = AbortSignal.timeout(milliseconds)
    return send(input, { ...init, signal: init?.signal ? AbortSignal.any([init.signal, limit]) : limit })
  }
}

/** Whether what is sent to this address can be read on the way: plain HTTP to a host that is not on a private network. */
export function isReadableOnTheWay(address: string): boolean {
  const { protocol, hostname } = new URL(address)
  return protocol === 'http:' && !isPrivateHost(hostname)
}

function isPrivateHost(hostname: string): boolean {
  if (hostname.startsWith('[')) return /^\[(::1\]|f[cd]|fe[89ab])/.test(hostname)
  if (/^[\d.]+$/.test(hostname)) {
    return /^(127\.|10\.|192\.168\.|169\.254\.|172\.(1[6-9]|2\d|3[01])\.|100\.(6[4-9]|[7-9]\d|1[01]\d|12[0-7])\.)/.test(
      hostname,
    )
  }
  return !hostname.includes('.') || /\.(localhost|local|internal|lan|home\.arpa|test)$/.test(hostname)
}
