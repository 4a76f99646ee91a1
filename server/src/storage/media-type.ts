import { filetypemime } from 'magic-bytes.js'

/** How many of a file's first bytes tell its type. */
export const headBytes = 4096

// RFC 6838 §4.2: restricted names on both sides.
const form = /^[a-z0-9][a-z0-9!#$&^_.+-]{0,126}\/[a-z0-9][a-z0-9!#$&^_.+-]{0,126}$/

/** The media type that an upload names, in lower case, without parameters; `null` when it is none. */
export function declaredType(given: string): string | null {
  const type = given.split(';', 1)[0]?.trim().toLowerCase() ?? ''
  return form.test(type) ? type : null
}

/** The media type that a file's first bytes tell, or `null`. They are only compared, never parsed. */
export function detectedType(head: Uint8Array): string | null {
  return filetypemime(head)[0] ?? null
}

/** What is answered: what the upload said, else what was found. */
export function mediaType(declared: string | null, detected: string | null): string {
  return declared ?? detected ?? 'application/octet-stream'
}
