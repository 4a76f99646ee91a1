import { readFile } from 'node:fs/promises'
import { type ListeningSocket, listeningSockets, networkOf } from '../../../platform/processes.ts'
import { debuggerPorts } from '../../debugger-ports.ts'
import type { Observation } from '../../runtime.ts'
import type { Container } from '../calls/types.ts'
import type { ContainerInstance } from './handle.ts'
import type { OwnCheck } from './own-check.ts'
import { exposedPorts } from './specification.ts'

/** The engine's own name server in the network of a container. */
const nameServer = '127.0.0.11'
/** A socket on `::` takes IPv4, too, by default. */
const everywhere = ['0.0.0.0', '::', '::ffff:0.0.0.0']
const loopback = ['127.0.0.1', '::ffff:127.0.0.1']

/** Observes a container that runs, by the sockets in its network. */
export async function observeRunning(
  container: Container,
  instance: Pick<ContainerInstance, 'port' | 'servedPort'>,
  leadsToLoopback: boolean,
  ownCheck: Pick<OwnCheck, 'problemOf'>,
): Promise<Observation> {
  const { State, Config } = container
  const address = addressOf(container)
  if (address === null) return { state: 'starting', port: instance.port }
  // The number may be another process's by now; the container's network is none of this machine's others.
  const isInside = networkOf(State.Pid) !== networkOf('self')
  const sockets = isInside ? await listeningSockets(State.Pid) : []
  const exposed = exposedPorts(Config.ExposedPorts)
  const seen = observationOf({ ...instance, address, exposed, leadsToLoopback }, sockets)
  if (seen.state === 'starting') return seen
  // An image may say itself whether it is ready. One that is not healthy any more is about to be ended.
  const problem = await ownCheck.problemOf(container)
  return problem === null ? seen : { state: 'unready', problem }
}

/** The address of a container in its network; null while it has none. */
export function addressOf({ NetworkSettings }: Pick<Container, 'NetworkSettings'>): string | null {
  const addresses = Object.values(NetworkSettings.Networks ?? {}).map(({ IPAddress }) => IPAddress)
  return addresses.find((address) => address !== '') ?? null
}

/** Derives an observation from the sockets in the network of a container, which is reached at its address. */
export function observationOf(
  place: Pick<ContainerInstance, 'port' | 'servedPort'> & {
    readonly address: string
    readonly exposed: readonly number[]
    /** True when connections to the address arrive at 127.0.0.1, too. */
    readonly leadsToLoopback: boolean
  },
  sockets: readonly Pick<ListeningSocket, 'port' | 'address'>[],
): Observation {
  const { port, servedPort = port, address } = place
  const reached = [...everywhere, address, ...(place.leadsToLoopback ? loopback : [])]
  const isReachable = (socket: { readonly address: string }) => reached.includes(socket.address)
  if (sockets.some((socket) => socket.port === servedPort && isReachable(socket))) {
    return { state: 'listening', endpoints: [{ host: address, port: servedPort }] }
  }
  const serious = sockets.filter(
    (socket) => socket.address !== nameServer && (socket.port === port || !debuggerPorts.has(socket.port)),
  )
  if (serious.length === 0) return { state: 'starting', port }
  const ports = [...new Set(serious.map((socket) => socket.port))].sort((a, b) => a - b)
  const reachable = ports.filter(
    (each) => each !== port && serious.some((one) => one.port === each && isReachable(one)),
  )
  const named = reachable.filter((each) => place.exposed.includes(each))
  const [only = null, ...others] = named.length > 0 ? named : reachable
  return { state: 'wrong_port', port, ports, servable: others.length === 0 ? only : null }
}

/** True when the control group of a process has been refused a process. */
export async function wasRefusedProcesses(pid: number): Promise<boolean> {
  const groups = (await readFile(`/proc/${pid}/cgroup`, 'utf8').catch(() => '')).split('\n')
  for (const line of groups) {
    const [number, controllers = '', path = ''] = line.split(':')
    const mount = number === '0' ? '/sys/fs/cgroup' : '/sys/fs/cgroup/pids'
    if (number !== '0' && !controllers.split(',').includes('pids')) continue
    const events = await readFile(`${mount}${path}/pids.events`, 'utf8').catch(() => '')
    if (/^max [1-9]/m.test(events)) return true
  }
  return false
}
