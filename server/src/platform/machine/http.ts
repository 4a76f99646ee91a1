import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'

/**
 * Node's HTTP, for all of the server: an `import` of `node:http` reads each of its exports, and reading its `WebSocket` loads
 * Node's whole client for the web, which takes 14 MB of memory in every process. Types may be imported from `node:http`.
 */
export const { createServer, request, ServerResponse, STATUS_CODES } = process.getBuiltinModule('node:http')
const { IncomingMessage } = process.getBuiltinModule('node:http')

/** Pieces below this size are joined. */
const smallBytes = 4_096
/** The small pieces that may come by a connection at once, and the bytes that there must be for each further one. */
const burstPieces = 200
const bytesPerPiece = 64

/** The error of a body that comes in too many pieces, for its readers. */
export class TooManyPieces extends Error {
  override readonly name = 'TooManyPieces'
  override readonly message = 'comes in too many small chunks; send larger ones'
}

/**
 * A request, for `createServer`, whose body comes in few pieces: those that arrive together are joined. A client may send each byte as a
 * chunk of its own (RFC 9112, section 7.1), and every piece costs the readers of bodies as much time and memory as thousands of bytes.
 *
 * Node itself takes a thousand times as long for such a byte, and goes through ten thousand of them without a break. So a connection may
 * bring only a burst of small pieces, and a further one for each millisecond that passes: slow clients are read to the end. Any other body
 * fails with `TooManyPieces` at the piece that is too many. The connection stays, for the answer, and the server tells of it by a
 * `clientError` for which `isPaused` is true.
 */
export class JoinedMessage extends IncomingMessage {
  #small: Buffer[] = []
  #smallBytes = 0
  #isRefused = false

  override push(piece: Buffer | null): boolean {
    // Node reads on, and then tells that its parser is paused.
    if (this.destroyed) return true
    if (piece === null || piece.length >= smallBytes) {
      this.#flush()
      return super.push(piece)
    }
    if (!takePiece(this.socket, piece.length)) {
      this.#refuse()
      return true
    }
    // Node comes here for each chunk of all that it has received.
    if (this.#small.length === 0) setImmediate(() => this.#flush())
    this.#small.push(piece)
    this.#smallBytes += piece.length
    return this.readableLength + this.#smallBytes < this.readableHighWaterMark
  }

  /** Node calls this when nobody has read the body of an answered request, and would then read it without a count of its pieces. */
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
    // Node would end the connection.
    if (!this.#isRefused) super._destroy(error, done)
    else done(this.listenerCount('error') > 0 ? error : null)
  }
}

/** The small pieces that each connection may bring now. */
const allowances = new WeakMap<Socket, { pieces: number; at: number }>()

/** Counts a small piece; false for one too many. */
function takePiece(socket: Socket, bytes: number): boolean {
  const allowance = allowances.get(socket) ?? { pieces: burstPieces, at: performance.now() }
  allowances.set(socket, allowance)
  const now = performance.now()
  allowance.pieces = Math.min(burstPieces, allowance.pieces + now - allowance.at) + bytes / bytesPerPiece - 1
  allowance.at = now
  return allowance.pieces >= 0
}

const kinds = ['kOnMessageBegin', 'kOnHeaders', 'kOnHeadersComplete', 'kOnBody', 'kOnMessageComplete'] as const

/** The parts of Node's parser that are used here. No documentation has them. */
interface Parser {
  readonly constructor: Readonly<Record<(typeof kinds)[number], number>>
  /** The functions that it calls, by their kind. */
  [kind: number]: unknown
  pause(): void
}

/**
 * Ignores what is left of the bytes that Node's parser goes through now. The server tells of it by a `clientError` for which `isPaused` is
 * true. The parser could be paused alone, but heeds that only once it has gone through all that it has received, ten thousand chunks
 * or two thousand requests. So there is no function left that it could call for each.
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

/** True for the error of a connection of which `ignoreReceived` has ignored something. */
export const isPaused = (error: { readonly code?: string }): boolean => error.code === 'HPE_PAUSED'

/** Reads what comes by a connection, a little in each turn, and does nothing with it: a client that still sends gets its answer. */
export function discardAll(socket: Duplex): void {
  socket.removeAllListeners('data')
  socket.on('data', () => {
    socket.pause()
    setImmediate(() => socket.resume())
  })
  socket.resume()
}

/** Lets a server answer clients that end their side after the request, such as `nc -N`, which Node cuts otherwise. */
export function acceptHalfClosed(server: Server): void {
  // Node has had this property since version 0.1.90, and no documentation of it.
  Object.assign(server, { httpAllowHalfOpen: true })
}
