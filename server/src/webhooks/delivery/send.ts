import type { Agent } from 'undici'
import type { Outbound } from '../../platform/outbound.ts'
import { urlProblem } from '../endpoint-url.ts'
import { type Answer, readAnswer } from './answer.ts'
import type { Message } from './message.ts'

export interface SendResult {
  /** True when there was a complete 2xx answer. */
  readonly ok: boolean
  readonly answer: Answer | null
  /** Why there is no complete answer. */
  readonly error: string | null
}

export interface Sender {
  /** Makes one attempt: a POST that follows no redirect and may take 15 s in total. Never rejects. */
  send(message: Message, signal: AbortSignal): Promise<SendResult>
  close(): Promise<void>
}

const timeoutMs = 15_000

/** Sends over kept-alive connections, and only to addresses that the outbound rule allows, checked at connect time. */
export function createSender({ outbound }: { outbound: Outbound }): Sender {
  let agent: Agent | undefined

  return {
    async send(message, signal) {
      // Checked again: the rule may have changed since the webhook was created, and no lookup is made for a literal address.
      const problem = urlProblem(message.url, outbound)
      if (problem !== undefined) return { ok: false, answer: null, error: `The address ${problem}.` }
      try {
        // Loaded for the first attempt: a server without webhooks does not need the memory of the library.
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
  // undici asserts what its parser accepts but its client does not, such as the status 000.
  if (error.name === 'AssertionError') return 'The answer is not well-formed HTTP.'
  return error.cause instanceof Error ? `${error.message}: ${error.cause.message}` : error.message
}
