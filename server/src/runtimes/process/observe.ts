import {
  familyOf,
  findProcesses,
  isRunning,
  type ListeningSocket,
  listeningSockets,
  networkOf,
  socketsHeldBy,
  userOf,
} from '../../platform/processes.ts'
import { ipv6Of } from '../network/addresses.ts'
import { debuggerPorts, type Handle, type Observation } from '../runtime.ts'
import type { LocalInstance } from './handle.ts'
import type { ProcessMarks } from './marks.ts'

interface Observed {
  readonly held: string
  readonly observation: Observation
  /** The end of validity while the app has the same sockets, by the clock of `performance.now()`. */
  readonly freshUntil: number
}

/** An observation stays valid for this many times its own duration, so polling takes at most a tenth of the time. */
const freshness = 10

/**
 * Makes the function that observes a running instance; it returns `null` when the instance has ended. It is made for
 * polling: most calls inspect only the processes of the app, and a new socket triggers a full look immediately.
 */
export function createObserver(
  marks: Pick<ProcessMarks, 'markerOf'>,
): (handle: Handle, instance: LocalInstance) => Promise<Observation | null> {
  const earlier = new WeakMap<Handle, Observed>()
  return async (handle, instance) => {
    if (!isRunning(instance)) return null
    const family = await familyOf(instance.pid)
    const sockets = await socketsHeldBy(family)
    const inodes = inodesOf(sockets)
    const held = [...inodes].sort().join()
    const startedAt = performance.now()
    const last = earlier.get(handle)
    if (last?.held === held && startedAt < last.freshUntil) return last.observation
    const observation = await observe(marks, instance, { sockets, inodes })
    const endedAt = performance.now()
    earlier.set(handle, { held, observation, freshUntil: endedAt + freshness * (endedAt - startedAt) })
    return observation
  }
}

async function observe(
  marks: Pick<ProcessMarks, 'markerOf'>,
  instance: LocalInstance,
  family: { readonly sockets: ReadonlyMap<number, readonly string[] | null>; readonly inodes: ReadonlySet<string> },
): Promise<Observation> {
  if (hasOwnNetwork(instance)) return observeInside(instance)
  const sockets = await listeningSockets()
  // In a sandbox, the first process is bubblewrap, which may run as root and not as the app's user.
  const user = instance.uid ?? userOf(instance.pid)
  const onPort = sockets.filter((socket) => socket.port === instance.port && socket.uid === user)
  if ([...family.sockets].some(([pid, held]) => held === null && userOf(pid) === user)) {
    // In a container, root may lack the right to inspect other users' processes. No other app has this user, and the
    // port was free when the app got it.
    return observationOf(instance, onPort)
  }
  const own = sockets.filter((socket) => family.inodes.has(socket.inode))
  if (onPort.length === 0 || own.some(({ port }) => port === instance.port)) return observationOf(instance, own)
  // Another process of the user has the port, perhaps a detached daemon of the app. Any app could set the marker to
  // steal traffic, but none can choose its user.
  const marked = await findProcesses(marks.markerOf(instance.releaseId, user ?? undefined))
  const daemons = inodesOf(await socketsHeldBy(marked.filter((pid) => userOf(pid) === user)))
  return observationOf(instance, [...own, ...onPort.filter((socket) => daemons.has(socket.inode))])
}

const hasOwnNetwork = ({ address, holder }: ListeningPlace): boolean => address !== undefined || holder !== undefined

/** Only the app is in its network. Its first process enters the network right after its start. */
async function observeInside(instance: LocalInstance): Promise<Observation> {
  const hasEntered = networkOf(instance.pid) !== networkOf('self')
  return observationOf(instance, hasEntered ? await listeningSockets(instance.pid) : [])
}

const inodesOf = (sockets: ReadonlyMap<number, readonly string[] | null>): Set<string> =>
  new Set([...sockets.values()].flatMap((inodes) => inodes ?? []))

/** An app on one of these is reachable at 127.0.0.1; a socket on `::` takes IPv4 by default, too. */
const ipv4Loopback = ['127.0.0.1', '0.0.0.0', '::', '::ffff:127.0.0.1', '::ffff:0.0.0.0']

/**
 * Derives an observation from the sockets of an app. A socket that the gateway cannot reach counts as a wrong port.
 *
 * @param place the destination of connections to the instance; a network with an `address` forwards them to loopback
 */
export function observationOf(
  place: ListeningPlace,
  sockets: readonly Pick<ListeningSocket, 'port' | 'address'>[],
): Observation {
  const { port, servedPort = port, address, ipv6Port = port } = place
  const addresses = new Set(sockets.filter((socket) => socket.port === servedPort).map((found) => found.address))
  // Pasta takes connections on this machine's port, and the network redirects them.
  const outside = address === undefined ? port : servedPort
  if (ipv4Loopback.some((loopback) => addresses.has(loopback))) return listeningOn(address ?? '127.0.0.1', outside)
  if (addresses.has('::1')) {
    return address === undefined ? listeningOn('::1', ipv6Port) : listeningOn(ipv6Of(address), outside)
  }
  const serious = sockets.filter((socket) => socket.port === port || !debuggerPorts.has(socket.port))
  if (serious.length === 0) return { state: 'starting', port }
  const ports = [...new Set(serious.map((socket) => socket.port))].sort((a, b) => a - b)
  const [only = port, ...others] = ports
  const isReachable = serious.some((socket) => [...ipv4Loopback, '::1'].includes(socket.address))
  const isServable = hasOwnNetwork(place) && only !== port && others.length === 0 && isReachable
  return { state: 'wrong_port', port, ports, servable: isServable ? only : null }
}

type ListeningPlace = Pick<LocalInstance, 'port' | 'servedPort' | 'address' | 'ipv6Port' | 'holder'>

const listeningOn = (host: string, port: number): Observation => ({ state: 'listening', endpoints: [{ host, port }] })
