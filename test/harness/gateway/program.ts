import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { vi } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { connectGateway, type GatewayOptions, type GatewayProcess } from '../../../server/src/gateway/gateway.ts'
import { isRunning, type ProcessIdentity } from '../../../server/src/platform/processes.ts'
import { freePort } from '../ports.ts'
import { temporaryDirectory } from '../temporary.ts'
import { HOST, type Place, type Scope, silent, startApp, type TestApp } from './harness.ts'

/** The gateway that holds a data directory, by its `gateway.json`. */
export interface Running extends ProcessIdentity {
  readonly version: string
}

/** A data directory; the gateway in it ends with the scope. */
export async function makeDataDirectory(scope: Scope): Promise<string> {
  const directory = await temporaryDirectory()
  scope.defer(async () => {
    const gateway = await running(directory.path).catch(() => null)
    // Without its socket a gateway ends by itself.
    await directory[Symbol.asyncDispose]()
    if (gateway !== null) await ended(gateway)
  })
  return directory.path
}

export type Settings = Partial<GatewayOptions['options']> & {
  readonly epoch?: number
  readonly retireMs?: number
  readonly log?: GatewayOptions['log']
}

export const defaults = {
  version: '1.0.0',
  host: HOST,
  apps: { mode: 'ports' },
  trustedProxies: [],
  workers: 1,
  edge: null,
} as const satisfies GatewayOptions['options']

/** The client of a data directory's gateway, as a server has it. */
export async function connectTo(
  scope: Scope,
  dataDirectory: string,
  { epoch = 1, retireMs = 20_000, log = silent, ...settings }: Settings = {},
): Promise<GatewayProcess> {
  const gateway = await connectGateway({
    dataDirectory,
    options: { ...defaults, ...settings },
    runAs: null,
    epoch,
    retireMs,
    log,
  })
  scope.defer(() => gateway.leave())
  return gateway
}

export async function running(dataDirectory: string): Promise<Running> {
  return JSON.parse(await readFile(join(dataDirectory, 'gateway', 'gateway.json'), 'utf8'))
}

export async function ended(process: ProcessIdentity): Promise<void> {
  await vi.waitUntil(() => !isRunning(process), { timeout: 30_000 })
}

/** An app that answers requests with its name and echoes on WebSockets. Its connections end with the scope. */
export async function startEcho(scope: Scope, name: string): Promise<TestApp> {
  const app = await startApp(scope, (_, res) => res.end(name))
  const sockets = new WebSocketServer({ server: app.server })
  sockets.on('connection', (socket) => socket.on('message', (data) => socket.send(`${name} ${data}`)))
  return app
}

export interface Tunnel {
  /** Resolves with the app's reply to `text`. */
  say(text: string): Promise<string>
  readonly closed: Promise<unknown>
  isOpen(): boolean
}

export async function openTunnel(scope: Scope, place: Place, headers: Record<string, string> = {}): Promise<Tunnel> {
  const address = typeof place === 'string' ? `ws+unix://${place}:/` : `ws://${HOST}:${place}/`
  const socket = new WebSocket(address, { headers })
  socket.on('error', () => {})
  scope.defer(() => socket.terminate())
  const closed = once(socket, 'close')
  await once(socket, 'open')
  return {
    async say(text) {
      const answer = once(socket, 'message')
      socket.send(text)
      return String((await answer)[0])
    },
    closed,
    isOpen: () => socket.readyState === WebSocket.OPEN,
  }
}

/** Starts a gateway of version 1.0.0 with the app `app`, which answers `hi`. */
export async function startOne(scope: Scope, settings: Settings = {}) {
  const dataDirectory = await makeDataDirectory(scope)
  const gateway = await connectTo(scope, dataDirectory, settings)
  const app = await startEcho(scope, 'hi')
  const port = await freePort()
  await gateway.open('app', { port })
  await gateway.route('app', app.upstream)
  return { dataDirectory, gateway, app, port, process: await running(dataDirectory) }
}
