import type { ClientRequest, ServerResponse } from 'node:http'

/** Up to this size copying a body costs less than writing a second buffer. */
const MAX_JOINED_BYTES = 8 * 1024

/** Sends the whole body with the head: of a short one Node makes one string with the head, and one write. */
export function endWith(message: ServerResponse | ClientRequest, body: Buffer): void {
  if (body.length <= MAX_JOINED_BYTES) message.end(body.toString('latin1'), 'latin1')
  else message.end(body)
}
