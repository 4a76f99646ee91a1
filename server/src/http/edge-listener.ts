import { once } from 'node:events'
import { chmod, chown, rename, rm } from 'node:fs/promises'
import type { Server } from 'node:http'
import { createServer, type Server as NetServer } from 'node:net'
import { setImmediate, setTimeout as sleep } from 'node:timers/promises'
import { fileIdentity } from '../platform/files.ts'
import { trustAsEdge } from './client-address.ts'

/** The Unix socket for the edge on this machine. Only the leader has it. */
export interface EdgeListener {
  /**
   * Listens at the path, in place of any other server. After the leadership is lost, keeps listening until another
   * server has taken the path, so that requests always find an open socket.
   *
   * @param path in a folder that only the server and the edge may enter
   * @param gid the group that may connect besides the user of this process; `null` for no group
   */
  listen(path: string, gid: number | null): Promise<void>
  /**
   * Stops accepting when another server has taken the path, or after `withinMs`. Resolves when all accepted requests
   * have finished.
   */
  retire(withinMs: number): Promise<void>
  /** Stops accepting at once. Resolves when all accepted requests have finished. */
  close(): Promise<void>
}

const lookEveryMs = 50
/** Connections may still wait in the queue after the path leads to another socket. */
const queueMs = 250

interface Listening {
  readonly socket: NetServer
  readonly path: string
  readonly identity: string | null
}

/** @param server answers the requests; it need not listen */
export function createEdgeListener(server: Server): EdgeListener {
  let current: Listening | null = null

  const accept = (): NetServer => {
    // As in node:http, a client may end its side before the answer.
    const socket = createServer({ allowHalfOpen: true })
    socket.on('connection', (connection) => {
      trustAsEdge(connection)
      server.emit('connection', connection)
    })
    return socket
  }
  const hasPlace = (): boolean => current !== null && fileIdentity(current.path) === current.identity

  return {
    async listen(path, gid) {
      if (current?.path === path && hasPlace()) return
      const before = current
      const socket = accept()
      const beside = `${path}.${process.pid}`
      await rm(beside, { force: true })
      socket.listen(beside)
      await once(socket, 'listening')
      socket.on('error', () => undefined)
      await chmod(beside, gid === null ? 0o600 : 0o660)
      if (gid !== null) await chown(beside, process.getuid?.() ?? 0, gid)
      const identity = fileIdentity(beside)
      await rename(beside, path)
      current = { socket, path, identity }
      before?.socket.close()
    },
    async retire(withinMs) {
      if (current === null) return
      const { socket } = current
      const deadline = performance.now() + withinMs
      while (hasPlace() && performance.now() < deadline) await sleep(lookEveryMs)
      await sleep(queueMs)
      if (!hasPlace()) await queueEnds(socket)
      await end(socket)
    },
    async close() {
      if (current !== null) await end(current.socket)
    },
  }
}

/**
 * Resolves when no connection waits to be accepted. Node accepts one in each turn of the event loop, so a busy server
 * needs some time.
 */
async function queueEnds(socket: NetServer): Promise<void> {
  let accepted = 0
  const count = () => {
    accepted += 1
  }
  socket.on('connection', count)
  for (let before = -1; before < accepted; ) {
    before = accepted
    await setImmediate()
    await setImmediate()
  }
}

async function end(socket: NetServer): Promise<void> {
  if (!socket.listening) return
  const closed = once(socket, 'close')
  socket.close()
  await closed
}
