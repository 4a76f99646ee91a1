import {
  familyOf,
  findProcesses,
  isRunning,
  type ListeningSocket,
  listeningSockets,
  socketsHeldBy,
  userOf,
} from '../../platform/processes.ts'
import type { Handle, Observation } from '../runtime.ts'
import { markerOf } from './end-release.ts'
import type { LocalInstance } from './release/local-instance.ts'

interface Observed {
  /** The sockets that the app's processes held at the time. */
  readonly held: string
  readonly observation: Observation
  /** The observation counts until then while the app holds the same sockets, by the clock of `performance.now()`. */
  readonly freshUntil: number
}

/** An observation counts for this many times as long as it took, so that polling costs a tenth of the time at most. */
const freshness = 10

/**
 * Makes the function that observes a running instance; it returns `null` when the instance has ended. It is made to be
 * polled: most calls look only at the app's own processes, and a new socket among theirs is looked up at once.
 */
export function createObserver(): (handle: Handle, instance: LocalInstance) => Promise<Observation | null> {
  const earlier = new WeakMap<Handle, Observed>()
  return async (handle, instance) => {
    if (!isRunning(instance)) return null
    const inodes = socketsOf(await familyOf(instance.pid))
    const held = [...inodes].sort().join()
    const startedAt = performance.now()
    const last = earlier.get(handle)
    if (last?.held === held && startedAt < last.freshUntil) return last.observation
    const observation = await observe(instance, inodes)
    const endedAt = performance.now()
    earlier.set(handle, { held, observation, freshUntil: endedAt + freshness * (endedAt - startedAt) })
    return observation
  }
}

async function observe(instance: LocalInstance, inodes: ReadonlySet<string>): Promise<Observation> {
  const sockets = await listeningSockets()
  const user = userOf(instance.pid)
  const onPort = sockets.filter((socket) => socket.port === instance.port && socket.uid === user)
  if (socketsHeldBy(instance.pid) === null) {
    // In a container, root may lack the right to look into other users' processes. The user is the app's alone, and
    // the port was free when the app got it.
    return observationOf(instance.port, onPort)
  }
  const own = sockets.filter((socket) => inodes.has(socket.inode))
  if (onPort.length === 0 || own.some(({ port }) => port === instance.port)) return observationOf(instance.port, own)
  // Another process of the app's user has the port, perhaps a daemon that the app has detached. Any app could set the
  // marker to get this one's traffic, but none can choose its user.
  const marked = await findProcesses(markerOf(instance.releaseId, user ?? undefined))
  const daemons = socketsOf(marked.filter((pid) => userOf(pid) === user))
  return observationOf(instance.port, [...own, ...onPort.filter((socket) => daemons.has(socket.inode))])
}

function socketsOf(pids: readonly number[]): Set<string> {
  return new Set(pids.flatMap((pid) => socketsHeldBy(pid) ?? []))
}

/** An app that listens on one of these addresses is reached at 127.0.0.1; a socket on `::` takes IPv4, too, by default. */
const ipv4Loopback = ['127.0.0.1', '0.0.0.0', '::', '::ffff:127.0.0.1', '::ffff:0.0.0.0']

/**
 * Derives an observation from the sockets of an app. A socket that the gateway cannot reach on loopback counts as a
 * wrong port.
 *
 * @param port as the app was given it
 */
export function observationOf(
  port: number,
  sockets: readonly Pick<ListeningSocket, 'port' | 'address'>[],
): Observation {
  const addresses = new Set(sockets.filter((socket) => socket.port === port).map(({ address }) => address))
  if (ipv4Loopback.some((address) => addresses.has(address))) return listeningOn('127.0.0.1', port)
  if (addresses.has('::1')) return listeningOn('::1', port)
  if (sockets.length === 0) return { state: 'starting', port }
  return { state: 'wrong_port', ports: [...new Set(sockets.map((socket) => socket.port))].sort((a, b) => a - b) }
}

const listeningOn = (host: string, port: number): Observation => ({ state: 'listening', endpoints: [{ host, port }] })
