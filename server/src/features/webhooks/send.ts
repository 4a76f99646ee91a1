import { isIP } from 'node:net'
import { type SigningKey, sign } from '@fairlead/receiver'
import type { Agent, Dispatcher } from 'undici'
import type { Outbound } from '../../platform/outbound.ts'

export interface SendResult {
  /** True when there was a complete 2xx answer. */
  readonly ok: boolean
  readonly answer: Answer | null
  /** The reason why there is no complete answer. */
  readonly error: string | null
}

export interface Sender {
  /** Makes one attempt: a POST without redirects that may take 15 s in total. Never rejects. */
  send(message: Message, signal: AbortSignal): Promise<SendResult>
  close(): Promise<void>
}

const timeoutMs = 15_000

/** Sends over kept-alive connections, and only to addresses that the outbound rule allows at connect time. */
export function createSender({ outbound }: { outbound: Outbound }): Sender {
  let agent: Agent | undefined

  return {
    async send(message, signal) {
      // Checked again, because the rule may have changed since the webhook was created, and a literal address has no
      // lookup.
      const problem = urlProblem(message.url, outbound)
      if (problem !== undefined) return { ok: false, answer: null, error: `The address ${problem}.` }
      try {
        // Loaded for the first attempt, so that servers without webhooks save the library's memory.
        const { Agent, request } = await import('undici')
        agent ??= new Agent({ connect: { lookup: outbound.lookup, timeout: timeoutMs } })
        const response = await request(message.url, {
          dispatcher: agent,
          method: 'POST',
          headers: { ...message.headers, 'webhook-signature': message.signature },
          body: message.body,
          signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
        })
        const answer = await readAnswer(response)
        return { ok: answer.status >= 200 && answer.status < 300, answer, error: null }
      } catch (error) {
        return { ok: false, answer: null, error: reasonOf(error) }
      }
    },
    close: async () => agent?.destroy(),
  }
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  if (error.name === 'TimeoutError') return `There was no complete answer within ${timeoutMs / 1000} s.`
  // undici's client asserts on answers that its parser accepts, such as the status 000.
  if (error.name === 'AssertionError') return 'The answer is not well-formed HTTP.'
  return error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : error.message
}

interface Message {
  readonly url: string
  /** All headers except the signature. */
  readonly headers: Readonly<Record<string, string>>
  readonly signature: string
  readonly body: Buffer
}

/**
 * Returns the request of one attempt, as Standard Webhooks requires: the id belongs to the event and is the same in all
 * attempts, the timestamp belongs to the attempt, and each key makes a signature.
 */
export function messageOf(
  event: { readonly url: string; readonly eventId: string; readonly body: string },
  keys: readonly SigningKey[],
  now: Date,
): Message {
  const body = Buffer.from(event.body)
  const timestamp = Math.floor(now.getTime() / 1000)
  return {
    url: event.url,
    body,
    headers: {
      'content-type': 'application/json',
      'user-agent': 'Fairlead-Webhooks',
      'webhook-id': event.eventId,
      'webhook-timestamp': String(timestamp),
    },
    signature: keys.map((key) => sign({ key, id: event.eventId, timestamp, body })).join(' '),
  }
}

interface Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

const limitBytes = 16 * 1024

/**
 * Reads at most 16 KiB of an answer. A longer answer is cut off together with its connection; a shorter answer is read
 * to its end, so that the connection can be reused. Rejects when the answer breaks off.
 */
async function readAnswer(response: Dispatcher.ResponseData): Promise<Answer> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of response.body) {
    chunks.push(chunk as Buffer)
    size += (chunk as Buffer).length
    // Leaving the loop closes the stream and its connection.
    if (size > limitBytes) break
  }
  return {
    status: response.statusCode,
    headers: headersOf(response.headers),
    body: storableText(Buffer.concat(chunks), limitBytes),
  }
}

/** Returns any bytes as text of at most `limit` bytes of UTF-8, without NUL, which PostgreSQL does not store. */
export function storableText(bytes: Buffer, limit: number): string {
  const text = bytes.subarray(0, limit).toString().replaceAll('\0', '\ufffd')
  const encoded = Buffer.from(text)
  // Bytes that are not UTF-8 become longer when replaced. A character that the cut would split is left out.
  return encoded.length <= limit ? text : new TextDecoder().decode(encoded.subarray(0, limit), { stream: true })
}

function headersOf(headers: Dispatcher.ResponseData['headers']): Record<string, string> {
  const entries = Object.entries(headers).map(([name, value]) => {
    const text = Array.isArray(value) ? value.join(', ') : (value ?? '')
    return [name, storableText(Buffer.from(text), limitBytes)]
  })
  return Object.fromEntries(entries)
}

/**
 * Returns why nothing may be sent to an endpoint's address; `undefined` when it is allowed. The addresses that a host
 * name resolves to are checked at each connection.
 */
export function urlProblem(url: string, outbound: Outbound): string | undefined {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the check refuses these characters.
  if (/[\s\x00-\x1f\x7f]/.test(url) || !url.isWellFormed()) return 'must not contain spaces or control characters'
  if (!URL.canParse(url)) return 'must be an address such as https://example.com/webhooks'
  const parsed = new URL(url)
  if (parsed.protocol !== 'https:' && parsed.protocol !== 'http:') return 'must begin with https:// or http://'
  if (parsed.username !== '' || parsed.password !== '') return 'must not carry a user name or password'
  const host = parsed.hostname.replace(/^\[|\]$/g, '')
  if (isIP(host) !== 0 && !outbound.allows(host)) return 'must lead to a public address'
  if (parsed.port !== '' && !outbound.allowsPort(Number(parsed.port))) {
    return 'must have the port 80, 443 or one above 1023'
  }
  return undefined
}
