import { WebSocket } from 'ws'
import { channels, type RunEnd, type RunRequest, readMessage, runProtocol } from '../../../contract/run-protocol.ts'
import { CommandError } from '../command-error.ts'

/** Less than the time in which the server expects an answer to its ping. */
const lifeMs = 10_000

/** The server pings three times in this time. */
const silenceMs = 60_000

/** The streams of this machine that a command of an app is connected with. */
export interface OwnStreams {
  readonly input: NodeJS.ReadableStream
  readonly output: NodeJS.WritableStream
  readonly errors: NodeJS.WritableStream
}

/** A command of an app, with this machine's streams as its own. */
export interface ConnectedRun {
  /** Resolves with its end. Rejects when the connection is lost, which ends the command, too. */
  readonly ended: Promise<RunEnd>
  send(request: RunRequest): void
  /** Ends the command. */
  close(): void
}

/** @param address the WebSocket's address, such as `wss://fairlead.example.com/runs/connect` */
export function connectRun(address: string, ticket: string, streams: OwnStreams): ConnectedRun {
  const socket = new WebSocket(address, [runProtocol, ticket], { handshakeTimeout: silenceMs })
  const send = (request: RunRequest) => {
    if (socket.readyState === socket.OPEN) socket.send(JSON.stringify(request))
  }
  const { promise: ended, resolve, reject } = Promise.withResolvers<RunEnd>()
  socket.once('open', () => passInput(socket, streams.input, () => send({ type: 'end' })))
  socket.on('message', (data: Buffer, isBinary: boolean) => {
    if (isBinary) return passOutput(socket, data, streams)
    const message = readMessage(data.toString())
    if (message?.type === 'exit') resolve(message as unknown as RunEnd)
  })
  // A connection that closes after the end is lost to nobody: the promise has settled.
  const lost = (why: string) => () => reject(new CommandError(why))
  socket.once('unexpected-response', lost('the server refused the connection to the command'))
  socket.once('error', lost('the connection to the server was lost, and the command was ended'))
  socket.once('close', lost('the connection to the server was lost, and the command was ended'))
  showLife(socket)
  endWithServer(socket)
  return { ended, send, close: () => socket.terminate() }
}

/** Tells the server that this client lives, also while it reads nothing and answers no ping: a pager may not read for long. */
function showLife(socket: WebSocket): void {
  const timer = setInterval(() => {
    if (socket.readyState === socket.OPEN) socket.pong()
  }, lifeMs)
  timer.unref()
  socket.once('close', () => clearInterval(timer))
}

/** Closes the connection when the server shows no life. While nothing is read here, nothing can be seen of it. */
function endWithServer(socket: WebSocket): void {
  const timer = setTimeout(() => (socket.isPaused ? timer.refresh() : socket.terminate()), silenceMs)
  timer.unref()
  const alive = () => void timer.refresh()
  socket.on('ping', alive).on('message', alive)
  socket.once('close', () => clearTimeout(timer))
}

/** Sends what is read, at the pace of the command. */
function passInput(socket: WebSocket, input: NodeJS.ReadableStream, end: () => void): void {
  input.on('data', (chunk: Buffer) => {
    input.pause()
    socket.send(Buffer.concat([Buffer.of(channels.input), chunk]), { binary: true }, () => input.resume())
  })
  input.once('end', end)
  socket.once('close', () => input.pause())
}

/** Writes what the command prints. The server sends no more while a stream takes nothing. */
function passOutput(socket: WebSocket, data: Buffer, { output, errors }: OwnStreams): void {
  const stream = data[0] === channels.errors ? errors : output
  if (stream.write(data.subarray(1))) return
  socket.pause()
  stream.once('drain', () => socket.resume())
}
