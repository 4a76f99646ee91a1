import type { IncomingMessage } from 'node:http'
import { connect } from 'node:net'
import type { Duplex } from 'node:stream'
import { WebSocket, WebSocketServer } from 'ws'
import { type RunEnd, runProtocol } from '../contract/run-protocol.ts'
import { controlHost } from '../platform/control/protocol.ts'
import type { Logger } from '../platform/logger.ts'
import { bridge, watchClient } from './bridge.ts'
import type { Executor } from './executor.ts'
import { streamsOf } from './socket-streams.ts'

/** The connections of clients to the commands that they run. The leader runs them; other servers pass messages on to it. */
export interface RunConnections {
  /** Makes this server run commands, until the returned function is called. */
  open(executor: Executor): () => void
  /** Connects a client to its run, here or by the server that leads. Resolves when it is connected, and never rejects. */
  connect(request: IncomingMessage, socket: Duplex, head: Buffer, runId: string): Promise<void>
  /** Takes what other servers of the data directory pass on: a request for a WebSocket at `/runs/<id>`. */
  fromServer(request: IncomingMessage, socket: Duplex, head: Buffer): void
}

/** When the server stops, connections are closed after this time: commands have been ended by then. */
const endMs = 8_000
/** The time in which a client reads the rest, once its command has ended: a pager may take long. */
const restMs = 600_000
/** A leader that hangs is not waited for any longer. */
const handshakeMs = 10_000
const pathOfRun = /^\/runs\/(run_[0-9a-z]{26})$/

/**
 * @param options.findLeader returns the path of the leader's control socket; `undefined` while no server leads
 * @param options.stopping aborts when this server stops
 */
export function createRunConnections(options: {
  readonly findLeader: () => Promise<string | undefined>
  readonly stopping: AbortSignal
  readonly logger: Pick<Logger, 'warn'>
}): RunConnections {
  const { findLeader, stopping, logger } = options
  const sockets = new WebSocketServer({
    noServer: true,
    clientTracking: false,
    maxPayload: 1024 * 1024,
    handleProtocols: () => runProtocol,
  })
  let executor: Executor | undefined

  const accept = async (request: IncomingMessage, socket: Duplex, head: Buffer): Promise<WebSocket> => {
    const { promise, resolve } = Promise.withResolvers<WebSocket>()
    sockets.handleUpgrade(request, socket, head, (made) => {
      // An error closes the connection. The first may come with the bytes that followed the request.
      made.on('error', () => undefined)
      resolve(made)
    })
    const accepted = await promise
    closeWith(accepted, stopping)
    return accepted
  }
  const serve = (socket: WebSocket, runId: string, by: Executor) => serveRun(by, { socket, runId, stopping, logger })

  return {
    open(given) {
      executor = given
      return () => {
        if (executor === given) executor = undefined
      }
    },

    async connect(request, socket, head, runId) {
      const client = await accept(request, socket, head)
      watchClient(client)
      if (executor !== undefined) return serve(client, runId, executor)
      client.pause()
      const path = await findLeader().catch(() => undefined)
      if (path === undefined) return finish(client, problemOf('No server leads at the moment; try again.'))
      passOn(client, runId, path)
      // The command goes on no longer than the way to it.
      whileOpen(client, stopping, () => client.close(1012))
    },

    fromServer(request, socket, head) {
      const runId = pathOfRun.exec(request.url ?? '')?.[1]
      const by = executor
      if (runId === undefined || by === undefined) return void socket.destroy()
      accept(request, socket, head).then(
        (accepted) => serve(accepted, runId, by),
        () => undefined,
      )
    },
  }
}

/** Runs the command of a client, and tells it the end. */
function serveRun(
  executor: Executor,
  given: {
    readonly socket: WebSocket
    readonly runId: string
    readonly stopping: AbortSignal
    readonly logger: Pick<Logger, 'warn'>
  },
): void {
  const { socket, runId, stopping, logger } = given
  executor.execute(runId, streamsOf(socket, stopping)).then(
    ({ exit_code, signal, problem }) => finish(socket, { type: 'exit', code: exit_code, signal, problem }),
    (error: unknown) => {
      logger.warn({ err: error, run: runId }, 'a command failed')
      finish(socket, problemOf('The server could not run the command; try again.'))
    },
  )
}

/** Connects a client with the leader, whose control socket is at `path`. */
function passOn(client: WebSocket, runId: string, path: string): void {
  const leader = new WebSocket(`ws://${controlHost}/runs/${runId}`, runProtocol, {
    createConnection: () => connect(path),
    headers: { host: controlHost },
    handshakeTimeout: handshakeMs,
  })
  leader.once('open', () => {
    // The client may be gone by now.
    if (client.readyState !== client.OPEN) return leader.terminate()
    bridge(client, leader)
    client.resume()
  })
  leader.once('error', () => finish(client, problemOf('The server that leads does not answer; try again.')))
}

const problemOf = (problem: string): RunEnd => ({ type: 'exit', code: null, signal: null, problem })

/** Sends the end, after what was sent before it. */
function finish(socket: WebSocket, end: RunEnd): void {
  const given = setTimeout(() => socket.terminate(), restMs).unref()
  socket.once('close', () => clearTimeout(given))
  socket.send(JSON.stringify(end), () => socket.close(1000))
}

/** Ends a connection that outlives its server's stop. */
function closeWith(socket: WebSocket, stopping: AbortSignal): void {
  whileOpen(socket, stopping, () => void setTimeout(() => socket.terminate(), endMs).unref())
}

/** Calls back when a signal aborts, unless the connection has closed. */
function whileOpen(socket: WebSocket, signal: AbortSignal, callback: () => void): void {
  signal.addEventListener('abort', callback, { once: true })
  socket.once('close', () => signal.removeEventListener('abort', callback))
}
