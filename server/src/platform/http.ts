import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'

/**
 * Node's HTTP for the whole server. An `import` of `node:http` reads each of its exports, and reading `WebSocket` loads
 * Node's whole web client: 14 MB in every process. Types may be imported.
 */
export const { createServer, request, ServerResponse, STATUS_CODES } = process.getBuiltinModule('node:http')
const { IncomingMessage } = process.getBuiltinModule('node:http')

/** Pieces below this size are joined. */
const smallBytes = 4_096
/** Small pieces that a connection may bring at once, and the bytes that pay for one more. */
const burstPieces = 200
const bytesPerPiece = 64

/** The error that readers of a body get when it comes in too many pieces. */
export class TooManyPieces extends Error {
  override readonly name = 'TooManyPieces'
  override readonly message = 'comes in too many small chunks; send larger ones'
}

/**
 * A request for `createServer` that joins the pieces of its body that arrive together. A client may send each byte as a
 * separate chunk (RFC 9112, section 7.1), and every piece costs the readers of bodies as much time and memory as
 * thousands of bytes.
 *
 * Node itself takes a thousand times as long for such a byte, and processes ten thousand of them without a break. So a
 * connection may bring only a burst of small pieces, and one more piece for each millisecond that passes: slow clients
 * are read to the end. Any other body fails with `TooManyPieces` at the first excess piece. The connection stays open
 * for the answer, and the server emits a `clientError` for which `isPaused` is true.
 */
export class JoinedMessage extends IncomingMessage {
  #small: Buffer[] = []
  #smallBytes = 0
  #isRefused = false

  override push(piece: Buffer | null): boolean {
    // True lets Node read on; it then reports that its parser is paused.
    if (this.destroyed) return true
    if (piece === null || piece.length >= smallBytes) {
      this.#flush()
      return super.push(piece)
    }
    if (!takePiece(this.socket, piece.length)) {
      this.#refuse()
      return true
    }
    // Node calls this for each chunk before it returns to the event loop, where the pieces are joined.
    if (this.#small.length === 0) setImmediate(() => this.#flush())
    this.#small.push(piece)
    this.#smallBytes += piece.length
    return this.readableLength + this.#smallBytes < this.readableHighWaterMark
  }

  /**
   * Node calls this when nobody has read the body of an answered request. Node's version would not count the pieces.
   */
  _dump(): void {
    this.resume()
  }

  #flush(): void {
    if (this.#small.length === 0) return
    const joined = Buffer.concat(this.#small)
    this.#small = []
    this.#smallBytes = 0
    if (!this.destroyed) super.push(joined)
  }

  #refuse(): void {
    this.#isRefused = true
    ignoreReceived(this.socket)
    this.destroy(new TooManyPieces())
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    // Node's version would end the connection.
    if (!this.#isRefused) super._destroy(error, done)
    else done(this.listenerCount('error') > 0 ? error : null)
  }
}

const allowances = new WeakMap<Socket, { pieces: number; at: number }>()

function takePiece(socket: Socket, bytes: number): boolean {
  const allowance = allowances.get(socket) ?? { pieces: burstPieces, at: performance.now() }
  allowances.set(socket, allowance)
  const now = performance.now()
  allowance.pieces = Math.min(burstPieces, allowance.pieces + now - allowance.at) + bytes / bytesPerPiece - 1
  allowance.at = now
  return allowance.pieces >= 0
}

const kinds = ['kOnMessageBegin', 'kOnHeaders', 'kOnHeadersComplete', 'kOnBody', 'kOnMessageComplete'] as const

/** Undocumented parts of Node's parser. */
interface Parser {
  readonly constructor: Readonly<Record<(typeof kinds)[number], number>>
  [kind: number]: unknown
  pause(): void
}

/**
 * Ignores the rest of what Node's parser is processing. The server then emits a `clientError` for which `isPaused` is
 * true. A pause is not enough: the parser pauses only after all received bytes, perhaps ten thousand chunks or two
 * thousand requests. So this also removes the callbacks that it would call.
 */
export function ignoreReceived(socket: Socket): void {
  const { parser } = socket as Socket & { parser?: Parser }
  if (parser === undefined) return
  parser.pause()
  const calls = kinds.map((kind) => [parser.constructor[kind], parser[parser.constructor[kind]]] as const)
  for (const [kind] of calls) parser[kind] = null
  // The parser may serve another connection later.
  setImmediate(() => {
    for (const [kind, call] of calls) parser[kind] = call
  })
}

/** True for the error of a connection after `ignoreReceived`. */
export const isPaused = (error: { readonly code?: string }): boolean => error.code === 'HPE_PAUSED'

/**
 * Reads and discards all input, a little in each turn of the event loop, so that a client that still sends gets its
 * answer.
 */
export function discardAll(socket: Duplex): void {
  socket.removeAllListeners('data')
  socket.on('data', () => {
    socket.pause()
    setImmediate(() => socket.resume())
  })
  socket.resume()
}

/**
 * Lets a server answer clients that end their side after the request, such as `nc -N`. Node disconnects them by
 * default.
 */
export function acceptHalfClosed(server: Server): void {
  // Node has had this undocumented property since version 0.1.90.
  Object.assign(server, { httpAllowHalfOpen: true })
}

/**
 * Keeps a socket readable after a failed write, which counts as done. Node would destroy the socket with an answer that
 * has arrived: a server that refuses an upload closes the connection after its answer, while the rest is being written.
 * The socket delivers all that the peer has sent, and then the end or the error.
 *
 * @returns a function that tells if a write has failed
 */
export function readLastBytes(socket: Socket): () => boolean {
  let failure: NodeJS.ErrnoException | null = null
  const write = socket._write
  const writev = socket._writev
  const tolerate =
    (done: (error?: Error | null) => void) =>
    (error?: Error | null): void => {
      if (error == null || socket.destroyed) {
        done(error)
        return
      }
      failure ??= error
      done()
    }
  socket._write = (chunk, encoding, done) => write.call(socket, chunk, encoding, tolerate(done))
  socket._writev = (chunks, done) => writev?.call(socket, chunks, tolerate(done))
  // The write has taken the error from the kernel, which reports an end to the next read. With EPIPE, the peer sent the
  // end before the reset; with any other error, it sent no end.
  socket.on('end', () => {
    if (failure === null || failure.code === 'EPIPE') return
    socket.emit('error', failure)
    socket.destroy()
  })
  return () => failure !== null
}
