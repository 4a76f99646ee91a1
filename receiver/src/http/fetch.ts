import { ReceiverError } from '../errors.ts'
import { methodAnswer, type Respond, type WebhookAnswer } from './exchange.ts'
import { aborted, requireSize } from './raw-body.ts'

/** Adapter for frameworks based on `fetch`: Hono, Deno, Bun, workers with Node's modules. The caller does the routing. */
export const fetchHandler =
  (respond: Respond, defaultReport: (error: ReceiverError) => void) =>
  async (request: Request): Promise<Response> => {
    if (request.method !== 'POST') return toResponse(methodAnswer())
    return toResponse(await respond(request.headers, readBody(request), defaultReport))
  }

const toResponse = ({ status, headers, body }: WebhookAnswer): Response => Response.json(body, { status, headers })

/** @throws ReceiverError `body_too_large`, `request_aborted`, `body_consumed` */
async function readBody(request: Request): Promise<Uint8Array> {
  if (request.bodyUsed || request.body?.locked) {
    throw new ReceiverError(
      'body_consumed',
      'The body was read before it reached the webhook receiver, so the signature cannot be checked. ' +
        'Hand the request over before anything calls its json(), text() or the like, or hand over a clone() of it.',
    )
  }
  requireSize(Number(request.headers.get('content-length') ?? 0))
  const chunks: Uint8Array[] = []
  let size = 0
  const reader = request.body?.getReader()
  try {
    for (let read = await reader?.read(); read?.value; read = await reader?.read()) {
      size += read.value.byteLength
      requireSize(size)
      chunks.push(read.value)
    }
  } catch (error) {
    reader?.cancel().catch(() => {})
    throw error instanceof ReceiverError ? error : aborted()
  }
  const [only] = chunks
  return only && chunks.length === 1 ? only : Buffer.concat(chunks, size)
}
