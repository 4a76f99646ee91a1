import type { IncomingMessage } from 'node:http'
import { request } from '../platform/http.ts'

/** Caddy's administration API on a Unix socket (https://caddyserver.com/docs/api). */
export interface Admin {
  answers(withinMs: number): Promise<boolean>
  /** Replaces the running configuration. Rejects with Caddy's reason; the previous configuration then stays. */
  load(configuration: string): Promise<void>
}

/** Caddy starts the new servers, then gives the old ones ten seconds to finish their requests. */
const loadTimeoutMs = 30_000
const mostBytes = 64 * 1024

export function adminAt(socket: string): Admin {
  return {
    async answers(withinMs) {
      const path = '/config/apps/http/servers/plain/listen'
      const answer = await call({ socket, method: 'GET', path, withinMs }).catch(() => null)
      return answer?.status === 200 && answer.text.trim() !== 'null'
    },
    async load(configuration) {
      const sent = { socket, method: 'POST', path: '/load', body: configuration, withinMs: loadTimeoutMs }
      const { status, text } = await call(sent)
      if (status !== 200) throw new Error(reasonIn(text))
    },
  }
}

interface Call {
  readonly socket: string
  readonly method: string
  readonly path: string
  readonly body?: string
  readonly withinMs: number
}

async function call({ socket, method, path, body, withinMs }: Call): Promise<{ status: number; text: string }> {
  const signal = AbortSignal.timeout(withinMs)
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
  const headers = { Host: 'localhost', ...(body === undefined ? {} : { 'Content-Type': 'application/json' }) }
  const sent = request({ socketPath: socket, method, path, headers, signal, agent: false }, resolve)
  sent.on('error', reject)
  sent.end(body)
  const answer = await promise
  let text = ''
  answer.setEncoding('utf8')
  for await (const chunk of answer as AsyncIterable<string>) {
    text += chunk
    if (text.length > mostBytes) answer.destroy()
  }
  return { status: answer.statusCode ?? 0, text }
}

/** Returns the reason in `{"error":"loading config: …"}`. */
function reasonIn(text: string): string {
  try {
    const { error } = JSON.parse(text) as { error?: unknown }
    return typeof error === 'string' ? error : text
  } catch {
    return text
  }
}
