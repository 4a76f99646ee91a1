import crypto, { createHash, type Hash } from 'node:crypto'

/** Bytes that SHA-256 takes at a time. */
const BLOCK = 64

/**
 * A key of HMAC-SHA256 (RFC 2104). What depends on the key alone is made once; the rest is two plain hashes, which Node
 * makes in less time than one `createHmac`, most of which is not hashing. No log shows what is in private fields.
 */
export class SigningKey {
  readonly #inner: Hash
  /** Has room for the inner hash at its end. Not of Node's pool, whose memory all small buffers of the process share. */
  readonly #outer = Buffer.alloc(BLOCK + 32)

  /** @param secret at most 64 bytes; longer ones would have to be hashed first */
  constructor(secret: Uint8Array) {
    if (secret.length > BLOCK)
      throw new RangeError(`The key has ${secret.length} bytes; at most ${BLOCK} are possible.`)
    this.#inner = createHash('sha256').update(masked(secret, 0x36))
    this.#outer.set(masked(secret, 0x5c))
  }

  /** The HMAC-SHA256 of a text and of bytes behind it, in base64. */
  sign(text: string, bytes: Uint8Array): string {
    const inner = this.#inner.copy().update(text).update(bytes).digest('binary')
    this.#outer.write(inner, BLOCK, 'latin1')
    return hash(this.#outer)
  }
}

/** A block of the secret, with zeros behind it, in which every byte is combined with `mask`. */
function masked(secret: Uint8Array, mask: number): Buffer {
  const block = Buffer.alloc(BLOCK)
  block.set(secret)
  return block.map((byte) => byte ^ mask) as Buffer
}

// Node has `crypto.hash` since 20.12.
const hash: (bytes: Buffer) => string = crypto.hash
  ? (bytes) => crypto.hash('sha256', bytes, 'base64')
  : (bytes) => createHash('sha256').update(bytes).digest('base64')
