import { edgeSockets, type GatewayProcess } from '../../../server/src/gateway/gateway.ts'
import { freePort } from '../ports.ts'
import type { Scope, TestApp } from './harness.ts'
import { connectTo, makeDataDirectory, type Settings, startEcho } from './program.ts'

/** A gateway behind an edge with the app `app` at `a.example`, which answers `hi`. */
export interface EdgeGateway {
  readonly dataDirectory: string
  readonly gateway: GatewayProcess
  readonly app: TestApp
  /** The port that all apps share, for proxies other than the edge. */
  readonly port: number
  readonly edge: string
  readonly questions: string
  connect(settings?: Settings): Promise<GatewayProcess>
}

export async function startEdge(scope: Scope, settings: Settings = {}): Promise<EdgeGateway> {
  const dataDirectory = await makeDataDirectory(scope)
  const port = await freePort()
  const common: Settings = {
    apps: { mode: 'hostnames', port, scheme: 'https' },
    edge: { hosts: ['fairlead.example'], httpsPort: 443 },
    ...settings,
  }
  const connect: EdgeGateway['connect'] = (others) => connectTo(scope, dataDirectory, { ...common, ...others })
  const gateway = await connect()
  const app = await startEcho(scope, 'hi')
  await gateway.listen()
  await gateway.open('app', { hostname: 'a.example' })
  await gateway.route('app', app.upstream)
  return { dataDirectory, gateway, app, port, ...edgeSockets(dataDirectory), connect }
}

/** The headers of a request that the edge passes on. */
export const from = (host: string, headers: Record<string, string> = {}): Record<string, string> => ({
  Host: host,
  'X-Forwarded-For': '203.0.113.7',
  'X-Forwarded-Proto': 'https',
  'X-Forwarded-Host': host,
  ...headers,
})

/** A certificate as the gateway sees it: a text. */
export const pemOf = (name: string): string => `-----BEGIN PRIVATE KEY-----\n${name}\n-----END PRIVATE KEY-----\n`

export const questionOf = (name: string): string => `/certificate?server_name=${encodeURIComponent(name)}`
