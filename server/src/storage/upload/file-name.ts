import { invalidRequest } from '../../contract/errors.ts'
import { hasInvisible } from '../../contract/invisible.ts'

/** The longest name that common file systems take. */
const longestBytes = 255

const controls = /\p{Cc}/u

/**
 * Returns the name to store for the file name that an upload gave: without folders (RFC 7578 §4.2) and trimmed.
 * Throws `invalid_request` on `name` when it is empty, `.` or `..`, has control characters, such as nobody sees, or bytes that are no
 * UTF-8, or more than 255 bytes.
 */
export function fileName(given: string): string {
  const name = given.slice(Math.max(given.lastIndexOf('/'), given.lastIndexOf('\\')) + 1)
  if (!name.isWellFormed()) throw refused('must be well-formed Unicode')
  if (controls.test(name)) throw refused('must not contain control characters')
  // The parser puts it in the place of bytes that are no UTF-8.
  if (name.includes('\ufffd')) throw refused('must be UTF-8')
  const trimmed = name.trim()
  if (hasInvisible(trimmed)) throw refused('must not contain characters that nobody sees or that change its direction')
  if (trimmed === '') throw refused('is required: give the file part a file name, or add a text part "name"')
  if (trimmed === '.' || trimmed === '..') throw refused('must be the name of a file')
  if (Buffer.byteLength(trimmed) > longestBytes) throw refused(`must be at most ${longestBytes} bytes of UTF-8`)
  return trimmed
}

/** Decodes the `filename` of a part as browsers and `fetch` write it: they escape the quote and line breaks only. */
export function unescapeFormName(filename: string): string {
  return filename.replace(/%(22|0d|0a)/gi, (_, code: string) => String.fromCharCode(Number.parseInt(code, 16)))
}

function refused(message: string): Error {
  return invalidRequest({ field: 'name', message })
}
