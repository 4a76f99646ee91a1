import type { GatewayHome, Replace } from '../control/program.ts'
import { logOf, spawnGateway } from '../control/spawn.ts'
import type { Engine } from '../engine/engine.ts'
import type { Fleet } from './fleet.ts'
import { createPeer, type Peer } from './peer.ts'

/** A successor that is not ready after this time is ended, and the old gateway goes on. */
const DEADLINE_MS = 15_000

/**
 * Starts another gateway and hands it the listening sockets. Accepting goes on all the time: the sockets are shared, so
 * what waits in their queues is answered by one of the two. Resolves when the successor has taken the control socket.
 * Rejects when it does not become ready; this gateway is unchanged then.
 */
export async function handOver(
  { command, options }: Replace,
  {
    home,
    engine,
    fleet,
    epoch,
  }: {
    readonly home: GatewayHome
    readonly engine: Engine
    readonly fleet: Fleet
    readonly epoch: number
  },
): Promise<Peer> {
  const child = spawnGateway(command, home)
  const peer = createPeer(child)
  const late = Promise.withResolvers<never>()
  const deadline = setTimeout(
    () => late.reject(new Error(`it was not ready after ${DEADLINE_MS / 1000} s`)),
    DEADLINE_MS,
  )
  try {
    const ready = peer.next('ready')
    peer.serve(fleet.handlers)
    peer.post({ type: 'succeed', home, options, epoch })
    await Promise.race([ready, late.promise])
    const adopted = engine
      .apps()
      .map((app) => peer.call('adopt', { app }, undefined, engine.socketOf(app.appId) ?? undefined))
    // One that has no edge may be of an older version, which knows nothing of these.
    if (options.edge) {
      for (const { name, parameters } of engine.edge.calls({ withCertificates: true }))
        adopted.push(peer.call(name, parameters))
    }
    // Last, because from then on requests for all apps arrive.
    const shared = engine.sharedSocket()
    if (shared !== null) adopted.push(peer.call('adopt', { app: null }, undefined, shared))
    await Promise.race([Promise.all(adopted), late.promise])
    const taken = peer.next('taken')
    peer.post({ type: 'take' })
    await Promise.race([taken, late.promise])
    child.unref()
    return peer
  } catch (error) {
    child.kill('SIGKILL')
    throw new Error(
      `The new gateway (${command.join(' ')}) did not start: ${(error as Error).message}. ` +
        `The old one goes on; see ${logOf(home)}.`,
    )
  } finally {
    clearTimeout(deadline)
  }
}
