import type { Client } from '@fairlead/server/client'
import { expect } from 'vitest'

export interface LogEvent {
  readonly id: string
  readonly name: string
  readonly data: Record<string, unknown>
}

/** Follows the log of a deployment: reads server-sent events as a browser would. */
export async function followLog(client: Client, projectId: string, id: string, headers: Record<string, string> = {}) {
  const gone = new AbortController()
  const response = await client.deployments.logs({
    params: { project_id: projectId, id },
    headers: { accept: 'text/event-stream', ...headers },
    signal: gone.signal,
  })
  expect(response.headers.get('content-type')).toContain('text/event-stream')
  const reader = (response.body as ReadableStream<Uint8Array>).pipeThrough(new TextDecoderStream()).getReader()
  let text = ''
  const next = async (): Promise<LogEvent> => {
    for (;;) {
      const end = text.indexOf('\n\n')
      if (end < 0) {
        const { value, done } = await reader.read()
        if (done) throw new Error('the stream has ended')
        text += value
        continue
      }
      const fields = new Map(
        text
          .slice(0, end)
          .split('\n')
          .map((line) => line.split(/: (.*)/s) as [string, string]),
      )
      text = text.slice(end + 2)
      const data = fields.get('data')
      if (data !== undefined)
        return { id: fields.get('id') ?? '', name: fields.get('event') ?? '', data: JSON.parse(data) }
    }
  }
  const until = async (fits: (event: LogEvent) => boolean): Promise<LogEvent> => {
    for (;;) {
      const event = await next()
      if (fits(event)) return event
    }
  }
  return { next, until, close: () => gone.abort() }
}
