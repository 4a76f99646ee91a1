import { Agent, type Dispatcher, request } from 'undici'
import type { Outbound } from '../platform/outbound.ts'

export interface Message {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
}

export type SendResult =
  | { readonly ok: boolean; readonly status: number; readonly error: null }
  | { readonly ok: false; readonly status: null; readonly error: string }

export interface Sender {
  /** One attempt: a POST that follows no redirect and has 15 s for everything. Never rejects. */
  send(message: Message, signal: AbortSignal): Promise<SendResult>
  close(): Promise<void>
}

const timeoutMs = 15_000
const answerLimitBytes = 16 * 1024

/** Sends over kept-alive connections to the addresses that the outbound rule allows, checked where they are made. */
export function createSender({ outbound }: { outbound: Outbound }): Sender {
  const agent = new Agent({ connect: { lookup: outbound.lookup, timeout: timeoutMs } })

  return {
    async send(message, signal) {
      try {
        const url = new URL(message.url)
        // A connection to an IP literal is made without asking `lookup`.
        await outbound.resolve(url.hostname)
        const response = await request(url, {
          dispatcher: agent,
          method: 'POST',
          headers: message.headers,
          body: message.body,
          signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
        })
        await readSome(response.body)
        const ok = response.statusCode >= 200 && response.statusCode < 300
        return { ok, status: response.statusCode, error: null }
      } catch (error) {
        return { ok: false, status: null, error: reasonOf(error) }
      }
    },
    close: () => agent.destroy(),
  }
}

/** Reads an answer to its end, so that the connection can be used again, unless it is too long. */
async function readSome(body: Dispatcher.ResponseData['body']): Promise<void> {
  await body.dump({ limit: answerLimitBytes })
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  if (error.name === 'TimeoutError') return `no answer within ${timeoutMs / 1000} s`
  return error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : error.message
}
