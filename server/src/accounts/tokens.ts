import { createHash, randomBytes } from 'node:crypto'

/** A secret of 32 random bytes for a cookie or a link. */
export function newToken(): string {
  return randomBytes(32).toString('base64url')
}

/** What is stored of it, and looked up by: a plain hash serves, because nobody guesses 256 bits. */
export function hashToken(token: string): Buffer {
  return createHash('sha256').update(token).digest()
}
