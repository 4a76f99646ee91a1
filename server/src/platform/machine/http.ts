import type { Server } from 'node:http'

/**
 * Node's HTTP, for all of the server: an `import` of `node:http` reads each of its exports, and reading its `WebSocket` loads
 * Node's whole client for the web, which takes 14 MB of memory in every process. Types may be imported from `node:http`.
 */
export const { createServer, request, ServerResponse, STATUS_CODES } = process.getBuiltinModule('node:http')
const { IncomingMessage } = process.getBuiltinModule('node:http')

/** Pieces below this size are joined. */
const smallBytes = 4_096
/** The small pieces that a body may have in any case, and the bytes that there must be for each further one. */
const freePieces = 5_000
const bytesPerPiece = 64

/**
 * A request, for `createServer`, whose body comes in few pieces: those that arrive together are joined. A client may send each byte as a
 * chunk of its own (RFC 9112, section 7.1), and every piece costs the readers of bodies as much time and memory as thousands of bytes.
 * Node itself takes a thousand times as long for such a byte, so a body of tens of thousands of chunks is cut.
 */
export class JoinedMessage extends IncomingMessage {
  #small: Buffer[] = []
  #smallBytes = 0
  #pieces = 0
  #bytes = 0

  override push(piece: Buffer | null): boolean {
    if (this.destroyed) return false
    if (piece === null || piece.length >= smallBytes) {
      this.#flush()
      return super.push(piece)
    }
    this.#pieces += 1
    this.#bytes += piece.length
    if (this.#pieces > freePieces + this.#bytes / bytesPerPiece) {
      this.destroy()
      return false
    }
    // Node comes here for each chunk of all that it has received.
    if (this.#small.length === 0) setImmediate(() => this.#flush())
    this.#small.push(piece)
    this.#smallBytes += piece.length
    return this.readableLength + this.#smallBytes < this.readableHighWaterMark
  }

  #flush(): void {
    if (this.#small.length === 0) return
    const joined = Buffer.concat(this.#small)
    this.#small = []
    this.#smallBytes = 0
    if (!this.destroyed) super.push(joined)
  }
}

/** Lets a server answer clients that end their side after the request, such as `nc -N`, which Node cuts otherwise. */
export function acceptHalfClosed(server: Server): void {
  // Node has had this property since version 0.1.90, and no documentation of it.
  Object.assign(server, { httpAllowHalfOpen: true })
}
