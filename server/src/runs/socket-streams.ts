import { PassThrough, Writable } from 'node:stream'
import type { RawData, WebSocket } from 'ws'
import { channels, readMessage } from '../contract/run-protocol.ts'
import { Canceled } from './canceled.ts'
import { createCapture } from './capture.ts'
import type { RunStreams } from './executor.ts'

/** More than any message of the protocol that is text. */
const mostTextBytes = 1_000

type Resize = (columns: number, rows: number) => void

/**
 * Makes the streams of a run of its client's connection. They abort when it closes, or `stopping` aborts. The end of what the command
 * prints is kept, too.
 */
export function streamsOf(socket: WebSocket, stopping: AbortSignal): RunStreams {
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
    onResizable(known) {
      resize = known
      // The window may have changed before the command began.
      if (size !== undefined) known(...size)
    },
  }
}

/** Takes bytes of the standard input; the client is read no further while the command does not read. */
function takeInput(socket: WebSocket, stdin: PassThrough, bytes: Buffer): void {
  if (bytes[0] !== channels.input || stdin.writableEnded) return
  if (stdin.write(bytes.subarray(1))) return
  socket.pause()
  stdin.once('drain', () => socket.resume())
}

/** The pace of a client that asks for pauses. */
interface Pace {
  pause(): void
  resume(): void
  /** Calls back once there is no pause. */
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

/** Passes on and keeps what is written, at the pace of the client. */
function channelOf(socket: WebSocket, channel: number, pace: Pace, keep: (chunk: Buffer) => void): Writable {
  return new Writable({
    write(chunk: Buffer, _encoding, written) {
      keep(chunk)
      // A client that is gone reads nothing; the signal says so.
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
