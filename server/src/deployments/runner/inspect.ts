import {
  familyOf,
  findProcesses,
  isRunning,
  type ListeningSocket,
  listeningPorts,
  listeningSockets,
  mayInspect,
  userOf,
} from '../../platform/processes.ts'
import { RELEASE_MARKER } from './environment.ts'
import type { Instance, InstanceState } from './runner.ts'

/**
 * Whether a running instance listens, and where. Made to be polled: what it costs depends on the app's own processes,
 * not on all of the machine's. Daemons that broke away from the app are looked for only when a socket of the app's user
 * on the given port would otherwise have no owner.
 *
 * @returns `null` when the instance has ended
 */
export async function inspectInstance(instance: Instance): Promise<InstanceState | null> {
  if (!isRunning(instance)) return null
  const sockets = listeningSockets()
  if (sockets.length === 0) return { state: 'starting' }
  const user = userOf(instance.pid)
  const onPort = sockets.filter((socket) => socket.port === instance.port && socket.uid === user)
  if (!mayInspect(instance.pid)) {
    // In a container, root may lack the right to look into other users' processes. The user is the app's alone, and
    // the port was free when the app got it.
    return stateOf(instance.port, onPort)
  }
  const held = listeningPorts(await familyOf(instance.pid), sockets)
  if (onPort.length > 0 && !held.some(({ port }) => port === instance.port)) {
    // The marker is the app's word, its user is not: another app could carry the marker to get this one's traffic.
    const marked = await findProcesses({ name: RELEASE_MARKER, value: instance.releaseId })
    held.push(
      ...listeningPorts(
        marked.filter((pid) => userOf(pid) === user),
        onPort,
      ),
    )
  }
  return stateOf(instance.port, held)
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
