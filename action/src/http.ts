import { HttpClient } from '@actions/http-client'
import type { Environment } from './event.ts'

/**
 * Returns a `fetch` that uses the proxy of the runner's environment (`https_proxy`, `http_proxy`, `no_proxy`). Node's own
 * `fetch` does so only when it is enabled at the start of the process.
 */
export function createProxiedFetch(env: Environment): typeof fetch {
  const variables = ['https_proxy', 'HTTPS_PROXY', 'http_proxy', 'HTTP_PROXY']
  if (!variables.some((variable) => env[variable])) return fetch
  // One client per origin, because a client keeps the proxy of its first request.
  const clients = new Map<string, HttpClient>()
  return (input, init) => {
    const { href, origin } = new URL(input instanceof Request ? input.url : input)
    const client = clients.get(origin) ?? new HttpClient()
    clients.set(origin, client)
    const dispatcher = client.getAgentDispatcher(href)
    if (dispatcher === undefined) return fetch(input, init)
    // The two types come from different versions of undici; the part used here is the same in both.
    return fetch(input, { ...init, dispatcher: dispatcher as unknown as NonNullable<RequestInit['dispatcher']> })
  }
}

/** Returns a `fetch` with a time limit for the answer including its body. */
export function withTimeout(milliseconds: number, send: typeof fetch): typeof fetch {
  return (input, init) => {
    const limit = AbortSignal.timeout(milliseconds)
    return send(input, { ...init, signal: init?.signal ? AbortSignal.any([init.signal, limit]) : limit })
  }
}

/** True when others can read requests to this address in transit: plain HTTP to a host outside of private networks. */
export function isExposedInTransit(address: string): boolean {
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
