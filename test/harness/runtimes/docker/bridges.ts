import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Engine } from '../../../../server/src/runtimes/docker/client.ts'
import { type HostNetwork, tryHostNetwork } from '../../../../server/src/runtimes/docker/network/host-network.ts'
import {
  type ContainerNetwork,
  type ContainerNetworks,
  createContainerNetworks,
} from '../../../../server/src/runtimes/docker/network/networks.ts'
import type { Reach } from '../../../../server/src/runtimes/network/reach.ts'
import { findNetworkTools } from '../../../../server/src/runtimes/process/confinement/capabilities.ts'
import { baseImage } from '../../docker.ts'

/** A part of the servers' default address range. */
const bridgeRange = { first: 10 * 2 ** 24 + 208 * 2 ** 16, bits: 12 }

/** The data directory of a test's server, which gives its rules and bridges their names. */
export const dataDirectoryOf = (server: string): string => `/data/${server}`

/** Opens the networks of a data directory, as a server does at its start. */
export async function openBridges(
  engine: Engine,
  server: string,
  reach: Reach,
  programs: string,
): Promise<{ networks: ContainerNetworks; host: HostNetwork }> {
  const tools = await findNetworkTools()
  if (tools === null) throw new Error('iproute2, nftables or util-linux is missing')
  const dataDirectory = dataDirectoryOf(server)
  const host = await tryHostNetwork({ tools, dataDirectory, programs, range: bridgeRange, reach })
  if (typeof host === 'string') throw new Error(host)
  const networks = createContainerNetworks({
    ...{ engine, server, dataDirectory, range: bridgeRange, host, neighbours: null },
    fence: () => undefined,
  })
  return { networks, host }
}

/**
 * Listens on an address, and contacts others on request: `?ask=` requests an http address, `?open=` opens a connection
 * to a host and a port.
 */
export const asker = `
const net = require('node:net')
const open = (host, port) => new Promise((done) => {
  const socket = net.connect({ host, port: Number(port), timeout: 2000 }, () => { done('open'); socket.destroy() })
  socket.on('timeout', () => { done('ETIMEDOUT'); socket.destroy() }).on('error', (error) => done(error.code))
})
require('node:http').createServer(async (request, response) => {
  const query = new URL(request.url, 'http://app').searchParams
  if (query.has('open')) return response.end(await open(...query.get('open').split(' ')))
  if (!query.has('ask')) return response.end(process.env.NAME + ' to ' + request.socket.remoteAddress)
  const asked = fetch(query.get('ask'), { signal: AbortSignal.timeout(3000) })
  response.end(await asked.then((answer) => answer.text(), (error) => 'none: ' + (error.cause?.code ?? error.name)))
}).listen(3000, process.env.LISTEN === 'eth0' ? require('node:os').networkInterfaces().eth0[0].address : process.env.LISTEN)`

/** A container that runs `asker`. */
export interface Asking {
  readonly id: string
  readonly pid: number
  readonly address: string
  readonly gateway: string
  /** Asks the server in this container, and returns the response. */
  answer(): Promise<string>
  ask(url: string): Promise<string>
  /** Opens a connection from the container; resolves with `open` or the error code. */
  open(host: string, port: number): Promise<string>
  end(): Promise<void>
}

interface Inspected {
  readonly State: { readonly Pid: number }
  readonly NetworkSettings: {
    readonly Networks: Readonly<Record<string, { readonly IPAddress: string; readonly Gateway: string }>>
  }
}

/** Starts an app of a project, as the runtime does. */
export async function startAsking(
  { engine, networks, server }: { engine: Engine; networks: ContainerNetworks; server: string },
  project: string,
  app: { readonly name: string; readonly listen?: string; readonly command?: readonly string[] },
): Promise<Asking> {
  const { name, listen = '0.0.0.0', command = ['node', '-e', asker] } = app
  return networks.join(project, async (network) => {
    const env = [`NAME=${name}`, `LISTEN=${listen}`]
    const id = await createContainer(engine, server, network, { argv: [...network.entry, ...command], name, env })
    await engine.call({ method: 'POST', path: ['containers', id, 'start'] })
    const { State, NetworkSettings } = await inspect(engine, id)
    const [at] = Object.values(NetworkSettings.Networks)
    if (at === undefined) throw new Error('the container is in no network')
    await networks.started(project, { id, pid: State.Pid, gateway: at.Gateway })
    const url = `http://${at.IPAddress}:3000/`
    const get = async (query: string) => (await fetch(url + query)).text()
    return {
      id,
      pid: State.Pid,
      address: at.IPAddress,
      gateway: at.Gateway,
      answer: () => get(''),
      ask: (asked) => get(`?ask=${encodeURIComponent(asked)}`),
      open: (host, port) => get(`?open=${encodeURIComponent(`${host} ${port}`)}`),
      async end() {
        await engine.call({ method: 'DELETE', path: ['containers', id], query: { force: true } })
        await networks.left(project)
      },
    }
  })
}

export const inspect = (engine: Engine, id: string): Promise<Inspected> =>
  engine.call<Inspected>({ method: 'GET', path: ['containers', id, 'json'] })

export async function createContainer(
  engine: Engine,
  server: string,
  network: ContainerNetwork,
  { argv, env = [], name = null }: { argv: readonly string[]; env?: readonly string[]; name?: string | null },
): Promise<string> {
  const body = {
    Image: baseImage,
    Entrypoint: argv,
    Env: env,
    Labels: { 'app.fairlead.server': server },
    HostConfig: { CapDrop: ['ALL'], ...network.hostConfig },
    NetworkingConfig: network.endpoints(name),
  }
  const { Id } = await engine.call<{ Id: string }>({ method: 'POST', path: ['containers', 'create'], body })
  return Id
}

/** A service of this machine. */
export async function service(text: string, address: string, port = 0): Promise<{ port: number } & AsyncDisposable> {
  const server: Server = createServer((_, response) => response.end(text))
  await new Promise<void>((done, fail) => server.once('error', fail).listen(port, address, done))
  return {
    port: (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((done) => server.close(done))
    },
  }
}
