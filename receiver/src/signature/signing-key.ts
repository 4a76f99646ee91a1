import crypto, { createHash, type Hash } from 'node:crypto'

/** The block size of SHA-256 in bytes. */
const BLOCK = 64

/**
 * A key of HMAC-SHA256 (RFC 2104). The state that depends only on the key is computed once. Two plain hashes remain,
 * which are faster than `createHmac`, which spends most of its time outside of hashing. The secret is in private
 * fields, which do not appear in logs.
 */
export class SigningKey {
  readonly #inner: Hash
  /** Has space for the inner hash at its end. `Buffer.alloc` does not use Node's pool, which small buffers share. */
  readonly #outer = Buffer.alloc(BLOCK + 32)

  /** @param secret at most 64 bytes, because longer keys would have to be hashed first */
  constructor(secret: Uint8Array) {
    if (secret.length > BLOCK) throw new RangeError(`The key has ${secret.length} bytes; at most ${BLOCK} are allowed.`)
    this.#inner = createHash('sha256').update(masked(secret, 0x36))
    this.#outer.set(masked(secret, 0x5c))
  }

  /** Returns the HMAC-SHA256 of `text` followed by `bytes`, in base64. */
  sign(text: string, bytes: Uint8Array): string {
    const inner = this.#inner.copy().update(text).update(bytes).digest('binary')
    this.#outer.write(inner, BLOCK, 'latin1')
    return hash(this.#outer)
  }
}

/** Returns the secret, padded with zeros to a block, with every byte XORed with `mask`. */
function masked(secret: Uint8Array, mask: number): Buffer {
  const block = Buffer.alloc(BLOCK)
  block.set(secret)
  return block.map((byte) => byte ^ mask) as Buffer
}

// `crypto.hash` exists since Node 20.12.
const hash: (bytes: Buffer) => string = crypto.hash
  ? (bytes) => crypto.hash('sha256', bytes, 'base64')
  : (bytes) => createHash('sha256').update(bytes).digest('base64')
