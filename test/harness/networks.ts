import { execFile, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { networkInterfaces } from 'node:os'
import { vi } from 'vitest'
import { namesOf } from '../../server/src/runtimes/network/addresses.ts'
import type { Reach } from '../../server/src/runtimes/network/reach.ts'
import { findNetworkTools, findPastaTools } from '../../server/src/runtimes/process/confinement/capabilities.ts'
import { ownNamespaces, removeNetworks } from '../../server/src/runtimes/process/network/namespaces.ts'
import { type Networks, tryNetworks } from '../../server/src/runtimes/process/network/networks.ts'
import { ordinaryUser } from './ordinary-user.ts'
import { isRoot, prefix } from './temporary.ts'

/** The servers' default address range. */
export const testNetwork = { first: 0xc612_0000, bits: 15 }

/** Allows only the internet, and no service of this machine. */
export const noReach: Reach = {
  loopback: [],
  localOnly: [],
  direct: [],
  apps: null,
  services: [],
  mirrors: [],
  outbound: { mode: 'public', allow: [] },
}

/** Returns why apps cannot have separate networks here; `null` when they can. */
export async function noNetworks(): Promise<string | null> {
  if (!isRoot) return 'the tests do not run as root'
  const tools = await findNetworkTools()
  if (tools === null) return 'iproute2, nftables or util-linux is missing'
  const dataDirectory = `/trial/${randomUUID()}`
  const networks = await tryNetworks({ tools, dataDirectory, range: testNetwork, reach: noReach })
  if (typeof networks !== 'string') await removeNetworks(tools, dataDirectory)
  return typeof networks === 'string' ? networks : null
}

/** Returns why apps of a server that is not root cannot have separate networks here; `null` when they can. */
export async function noPasta(): Promise<string | null> {
  if ((await findPastaTools()) === null) return 'passt, nftables or util-linux is missing'
  return new Promise((done) => {
    execFile('pasta', ['-f', '-q', '--config-net', '--', 'true'], { ...ordinaryUser, timeout: 10_000 }, (error) =>
      done(error === null ? null : `pasta cannot be used here (${error.message.trim().split('\n').at(-1)})`),
    )
  })
}

interface OtherMachine extends AsyncDisposable {
  readonly addresses: { readonly public: string; readonly private: string; readonly metadata: string }
}

/** Closes the networks of a data directory as soon as their last processes have ended. */
export async function closeNetworks(networks: Networks | null, directory: string): Promise<void> {
  if (networks === null) return
  const names = namesOf(directory)
  await vi.waitFor(
    async () => {
      await networks.close()
      if ((await ownNamespaces(names)).length > 0) throw new Error(`something still runs in a network of ${directory}`)
    },
    { timeout: 20_000, interval: 50 },
  )
}

/**
 * Simulates another machine: a namespace with three addresses, in which a program answers at port 80 with `outside`.
 * The first two addresses are 11.255.<part>.2 and 10.255.<part>.2. No interface of this machine has that part: if a run
 * and its watcher are killed, their machine remains, and its route would catch the address.
 *
 * @param metadata a link-local address
 */
export async function otherMachine(metadata: string): Promise<OtherMachine> {
  await using cleanup = new AsyncDisposableStack()
  const used = Object.values(networkInterfaces()).flatMap((each) => (each ?? []).map(({ address }) => address))
  const part = Array.from({ length: 254 }, (_, index) => ((process.pid + index) % 254) + 1).find(
    (each) => !used.includes(`11.255.${each}.1`),
  )
  if (part === undefined) throw new Error('runs that were killed left 254 machines: remove them with ip netns delete')
  const addresses = { public: `11.255.${part}.2`, private: `10.255.${part}.2`, metadata }
  const near = `11.255.${part}.1`
  const [name, link] = [`${prefix}outside-${part}`, `out${part}x${process.pid % 1e6}`]
  const inside = ['-n', name, 'address', 'add']
  await system('ip', 'netns', 'add', name)
  cleanup.defer(async () => void (await system('ip', 'netns', 'delete', name)))
  await system('ip', 'link', 'add', link, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', name)
  await system('ip', 'address', 'add', `${near}/30`, 'dev', link)
  await system('ip', 'link', 'set', link, 'up')
  await system('ip', '-n', name, 'link', 'set', 'eth0', 'up')
  await system('ip', ...inside, `${addresses.public}/30`, 'dev', 'eth0')
  await system('ip', '-n', name, 'route', 'add', 'default', 'via', near)
  for (const address of [addresses.private, addresses.metadata]) {
    await system('ip', ...inside, `${address}/32`, 'dev', 'eth0')
    // A killed run may have left a route to this address.
    await system('ip', 'route', 'replace', `${address}/32`, 'via', addresses.public, 'dev', link)
  }
  const code = 'require("node:http").createServer((_, r) => r.end("outside")).listen(80, () => console.log("up"))'
  const web = spawn('nsenter', [`--net=/run/netns/${name}`, '--', process.execPath, '-e', code])
  cleanup.defer(() => void web.kill('SIGKILL'))
  await once(web.stdout, 'data')
  const owned = cleanup.move()
  return { addresses, [Symbol.asyncDispose]: () => owned.disposeAsync() }
}

/**
 * A service of this machine that keeps its connections open. Count the connections to show that nothing gets through: a
 * surrounding network may accept connections to foreign addresses.
 */
export async function hostService(
  address: string,
  port = 0,
): Promise<{ port: number; sockets: Set<Socket> } & AsyncDisposable> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket.on('error', () => undefined))
  })
  await new Promise<void>((done, fail) => server.once('error', fail).listen(port, address, done))
  return {
    port: (server.address() as AddressInfo).port,
    sockets,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      await new Promise((done) => server.close(done))
    },
  }
}

export function system(program: string, ...args: string[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const env = { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' }
    execFile(program, args, { env, timeout: 10_000 }, (error, stdout) => (error ? reject(error) : resolve(stdout)))
  })
}

/** Returns the number of connections in the table that all networks of the machine share. */
export const trackedConnections = async (): Promise<number> =>
  Number(await readFile('/proc/sys/net/netfilter/nf_conntrack_count', 'utf8'))
