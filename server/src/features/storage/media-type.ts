import { filetypemime } from 'magic-bytes.js'

/** The number of first bytes that are examined to detect a file's type. */
export const headBytes = 4096

// RFC 6838 §4.2: restricted names on both sides.
const form = /^[a-z0-9][a-z0-9!#$&^_.+-]{0,126}\/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}$/

/** Returns the media type from an upload, in lower case and without parameters; `null` when it is not well-formed. */
export function declaredType(given: string): string | null {
  const type = given.split(';', 1)[0]?.trim().toLowerCase() ?? ''
  return form.test(type) ? type : null
}

/** Returns the media type that a file's first bytes suggest, or `null`. The bytes are compared, never parsed. */
export function detectedType(head: Uint8Array): string | null {
  return filetypemime(head)[0] ?? null
}

export function mediaType(declared: string | null, detected: string | null): string {
  return declared ?? detected ?? 'application/octet-stream'
}
