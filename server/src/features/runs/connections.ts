import type { IncomingMessage } from 'node:http'
import { connect } from 'node:net'
import { type Duplex, PassThrough, Writable } from 'node:stream'
import { type RawData, WebSocket, WebSocketServer } from 'ws'
import { channels, type RunEnd, readMessage, runProtocol } from '../../contract/run-protocol.ts'
import type { ConnectRun } from '../../http/application.ts'
import { controlHost } from '../../platform/control/client.ts'
import type { Database } from '../../platform/database.ts'
import type { Logger } from '../../platform/logger.ts'
import { Canceled, createCapture, type Executor, type RunStreams } from './executor.ts'
import { hashTicket, redeemTicket } from './runs.ts'

/** The connections of clients to their commands. The leader runs the commands; other servers forward messages to it. */
export interface RunConnections {
  /** Makes this server run commands, until the returned function is called. */
  open(executor: Executor): () => void
  /** Connects a client to its run, here or through the leader. Resolves when it is connected, and never rejects. */
  connect(request: IncomingMessage, socket: Duplex, head: Buffer, runId: string): Promise<void>
  /** Handles a connection that another server forwards: a request for a WebSocket at `/runs/<id>`. */
  fromServer(request: IncomingMessage, socket: Duplex, head: Buffer): void
}

/** When the server stops, its connections are closed after this time: commands have ended by then. */
const endMs = 8_000
/** The time in which a client reads remaining output after the end of its command: a pager may take long. */
const restMs = 600_000
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
      // The command ends with the connection to it.
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

function passOn(client: WebSocket, runId: string, path: string): void {
  const leader = new WebSocket(`ws://${controlHost}/runs/${runId}`, runProtocol, {
    createConnection: () => connect(path),
    headers: { host: controlHost },
    handshakeTimeout: handshakeMs,
  })
  leader.once('open', () => {
    if (client.readyState !== client.OPEN) return leader.terminate()
    bridge(client, leader)
    client.resume()
  })
  leader.once('error', () => finish(client, problemOf('The server that leads does not answer; try again.')))
}

const problemOf = (problem: string): RunEnd => ({ type: 'exit', code: null, signal: null, problem })

function finish(socket: WebSocket, end: RunEnd): void {
  const given = setTimeout(() => socket.terminate(), restMs).unref()
  socket.once('close', () => clearTimeout(given))
  socket.send(JSON.stringify(end), () => socket.close(1000))
}

function closeWith(socket: WebSocket, stopping: AbortSignal): void {
  whileOpen(socket, stopping, () => void setTimeout(() => socket.terminate(), endMs).unref())
}

function whileOpen(socket: WebSocket, signal: AbortSignal, callback: () => void): void {
  signal.addEventListener('abort', callback, { once: true })
  socket.once('close', () => signal.removeEventListener('abort', callback))
}

const pingMs = 20_000

/** Forwards messages in both directions, each at the pace of its receiver, until a connection closes. */
function bridge(client: WebSocket, leader: WebSocket): void {
  pass(client, leader)
  pass(leader, client)
  client.once('close', () => leader.terminate())
  // 1000 is a regular end; 1012 means that the server stops (RFC 6455).
  leader.once('close', (code: number) => client.close(code === 1000 ? 1000 : 1012))
  leader.on('error', () => undefined)
}

function pass(from: WebSocket, to: WebSocket): void {
  from.on('message', (data, isBinary) => {
    from.pause()
    to.send(data, { binary: isBinary }, () => from.resume())
  })
}

/**
 * Closes a connection whose client does not answer pings: its machine may have disappeared. While the connection is not
 * read, because the command does not read its input, answers cannot arrive, and a missing answer does not count.
 */
export function watchClient(socket: WebSocket): void {
  let answered = true
  const answer = () => {
    answered = true
  }
  socket.on('pong', answer).on('message', answer)
  const timer = setInterval(() => {
    if (!answered && !socket.isPaused) return socket.terminate()
    answered = socket.isPaused
    socket.ping(() => undefined)
  }, pingMs)
  timer.unref()
  socket.once('close', () => clearInterval(timer))
}

const ticketForm = /^[\w-]{43}$/

/** Returns the function that connects clients by the tickets of their runs. */
export function createConnectRun({
  database,
  connections,
}: {
  readonly database: Database
  readonly connections: Pick<RunConnections, 'connect'>
}): ConnectRun {
  return async (request, socket, head) => {
    // A client may disconnect before it has an answer.
    socket.on('error', () => undefined)
    const [protocol, ticket = ''] = (request.headers['sec-websocket-protocol'] ?? '')
      .split(',')
      .map((part) => part.trim())
    if (protocol !== runProtocol || !ticketForm.test(ticket)) return refuse(socket, 400)
    const runId = await redeemTicket(database, hashTicket(ticket)).catch(() => null)
    if (runId === null) return refuse(socket, 503)
    if (runId === undefined) return refuse(socket, 403)
    await connections.connect(request, socket, head, runId)
  }
}

const reasons = {
  400: 'Bad Request',
  403: 'Forbidden',
  503: 'Service Unavailable',
} as const

function refuse(socket: Duplex, status: keyof typeof reasons): void {
  socket.once('finish', () => socket.destroy())
  socket.end(`HTTP/1.1 ${status} ${reasons[status]}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`)
}

/** More than any text message of the protocol. */
const mostTextBytes = 1_000

type Resize = (columns: number, rows: number) => void

/**
 * Makes the streams of a run from its client's connection. They abort when the connection closes, or `stopping` aborts.
 * The end of the command's output is kept, too.
 */
function streamsOf(socket: WebSocket, stopping: AbortSignal): RunStreams {
  const gone = new AbortController()
  const pace = createPace()
  const leave = () => {
    pace.resume()
    gone.abort(new Canceled('Its client has disconnected.'))
  }
  socket.once('close', leave)
  if (socket.readyState !== socket.OPEN) leave()
  const capture = createCapture()
  const stdin = new PassThrough()
  gone.signal.addEventListener('abort', () => stdin.end(), { once: true })
  let resize: Resize | undefined
  let size: Parameters<Resize> | undefined
  socket.on('message', (data: RawData, isBinary: boolean) => {
    const bytes = bytesOf(data)
    if (isBinary) return takeInput(socket, stdin, bytes)
    if (bytes.length > mostTextBytes) return
    const message = readMessage(bytes.toString())
    if (message?.type === 'end') stdin.end()
    if (message?.type === 'pause' && !gone.signal.aborted) pace.pause()
    if (message?.type === 'resume') pace.resume()
    if (message?.type !== 'resize') return
    const { columns, rows } = message
    if (!isSide(columns) || !isSide(rows)) return
    size = [columns, rows]
    resize?.(columns, rows)
  })
  return {
    stdin,
    stdout: channelOf(socket, channels.output, pace, capture.keep),
    stderr: channelOf(socket, channels.errors, pace, capture.keep),
    output: capture.text,
    signal: AbortSignal.any([gone.signal, stopping]),
    onResizable(callback) {
      resize = callback
      // The window may have changed before the command began.
      if (size !== undefined) callback(...size)
    },
  }
}

function takeInput(socket: WebSocket, stdin: PassThrough, bytes: Buffer): void {
  if (bytes[0] !== channels.input || stdin.writableEnded) return
  if (stdin.write(bytes.subarray(1))) return
  socket.pause()
  stdin.once('drain', () => socket.resume())
}

interface Pace {
  pause(): void
  resume(): void
  wait(callback: () => void): void
}

function createPace(): Pace {
  let waiting: (() => void)[] | undefined
  return {
    pause() {
      waiting ??= []
    },
    resume() {
      const callbacks = waiting ?? []
      waiting = undefined
      for (const callback of callbacks) callback()
    },
    wait(callback) {
      if (waiting === undefined) callback()
      else waiting.push(callback)
    },
  }
}

function channelOf(socket: WebSocket, channel: number, pace: Pace, keep: (chunk: Buffer) => void): Writable {
  return new Writable({
    write(chunk: Buffer, _encoding, written) {
      keep(chunk)
      // A disconnected client reads nothing; the signal reports it.
      socket.send(Buffer.concat([Buffer.of(channel), chunk]), { binary: true }, () => pace.wait(() => written()))
    },
  })
}

export function bytesOf(data: RawData): Buffer {
  if (Array.isArray(data)) return Buffer.concat(data)
  return Buffer.isBuffer(data) ? data : Buffer.from(data)
}

const isSide = (value: unknown): value is number =>
  Number.isInteger(value) && Number(value) >= 1 && Number(value) <= 1_000
