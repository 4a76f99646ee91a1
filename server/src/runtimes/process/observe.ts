import {
  familyOf,
  findProcesses,
  isRunning,
  type ListeningSocket,
  listeningSockets,
  socketsHeldBy,
  userOf,
} from '../../platform/processes.ts'
import type { Instance, InstanceState } from '../runtime.ts'
import { RELEASE_MARKER } from './environment.ts'

interface Look {
  /** The sockets that the app's processes held at the time. */
  readonly held: string
  readonly state: InstanceState
  /** Until when the state is believed while the app holds the same sockets, by the clock of `performance.now()`. */
  readonly freshUntil: number
}

/** A look at the tables of sockets counts for this many times as long as it took: polling costs a tenth at most. */
const FRESHNESS = 10

/**
 * Makes the function that tells whether an instance listens, and where; `null` when the instance has ended. It is made
 * to be polled: most calls only look at the app's own processes, and a new socket among theirs is looked up at once.
 */
export function createInspector(): (instance: Instance) => Promise<InstanceState | null> {
  const looks = new WeakMap<Instance, Look>()
  return async (instance) => {
    if (!isRunning(instance)) return null
    const inodes = heldBy(await familyOf(instance.pid))
    const held = [...inodes].sort().join()
    const startedAt = performance.now()
    const last = looks.get(instance)
    if (last?.held === held && startedAt < last.freshUntil) return last.state
    const state = await look(instance, inodes)
    const endedAt = performance.now()
    looks.set(instance, { held, state, freshUntil: endedAt + FRESHNESS * (endedAt - startedAt) })
    return state
  }
}

async function look(instance: Instance, inodes: ReadonlySet<string>): Promise<InstanceState> {
  const sockets = await listeningSockets()
  const user = userOf(instance.pid)
  const onPort = sockets.filter((socket) => socket.port === instance.port && socket.uid === user)
  if (socketsHeldBy(instance.pid) === null) {
    // In a container, root may lack the right to look into other users' processes. The user is the app's alone, and
    // the port was free when the app got it.
    return stateOf(instance.port, onPort)
  }
  const own = sockets.filter((socket) => inodes.has(socket.inode))
  if (onPort.length === 0 || own.some(({ port }) => port === instance.port)) return stateOf(instance.port, own)
  // Somebody of the app's user has the port: it may be a daemon that broke away from the app. The marker is the app's
  // word and its user is not: otherwise another app could carry the marker to get this one's traffic.
  const marked = await findProcesses({ name: RELEASE_MARKER, value: instance.releaseId })
  const daemons = heldBy(marked.filter((pid) => userOf(pid) === user))
  return stateOf(instance.port, [...own, ...onPort.filter((socket) => daemons.has(socket.inode))])
}

function heldBy(pids: readonly number[]): Set<string> {
  return new Set(pids.flatMap((pid) => socketsHeldBy(pid) ?? []))
}

/** What the sockets of an app say about it. A socket that the gateway cannot reach on loopback is `elsewhere`. */
export function stateOf(given: number, sockets: readonly Pick<ListeningSocket, 'port' | 'address'>[]): InstanceState {
  const addresses = new Set(sockets.filter(({ port }) => port === given).map(({ address }) => address))
  if (IPV4_LOOPBACK.some((address) => addresses.has(address))) return { state: 'listening', host: '127.0.0.1' }
  if (addresses.has('::1')) return { state: 'listening', host: '::1' }
  if (sockets.length === 0) return { state: 'starting' }
  return { state: 'elsewhere', ports: [...new Set(sockets.map(({ port }) => port))].sort((a, b) => a - b) }
}

/** Bound to one of these, a socket is reached at 127.0.0.1; by default one on `::` takes IPv4, too. */
const IPV4_LOOPBACK = ['127.0.0.1', '0.0.0.0', '::', '::ffff:127.0.0.1', '::ffff:0.0.0.0']
