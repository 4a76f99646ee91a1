import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'

/** Where downloads are served, besides /v1: whoever holds a file's address may read it. */
export const filesPath = '/files'

/** The secret of an address: 192 random bits. */
export function newToken(): string {
  return randomBytes(24).toString('base64url')
}

/** `origin` is the server's public address without a path. */
export function fileUrl(origin: string, id: string, token: string): string {
  return `${origin}${filesPath}/${id}/${token}`
}

/** Compares in a time that tells nothing of where the two differ. */
export function sameToken(one: string, other: string): boolean {
  return timingSafeEqual(digest(one), digest(other))
}

function digest(token: string): Buffer {
  return createHash('sha256').update(token).digest()
}
