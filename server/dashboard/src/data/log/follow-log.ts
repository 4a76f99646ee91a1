/** One message of a stream of server-sent events (HTML Standard, section 9.2.6). */
export interface ServerEvent {
  readonly event: string
  readonly data: string
  /** The last id seen so far, for going on later. */
  readonly id: string
}

/**
 * Reads a stream of server-sent events. The browser's own EventSource tells neither the status nor the body of an
 * error, so the stream is read here.
 */
export async function* readEvents(body: ReadableStream<Uint8Array<ArrayBuffer>>): AsyncGenerator<ServerEvent, void> {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  let id = ''
  let event = ''
  let data: string[] = []
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      const lines = (rest + value).split(/\r\n|\n|\r(?!$)/)
      rest = lines.pop() ?? ''
      for (const line of lines) {
        if (line === '') {
          if (data.length > 0) yield { event: event || 'message', data: data.join('\n'), id }
          event = ''
          data = []
          continue
        }
        const colon = line.indexOf(':')
        if (colon === 0) continue
        const field = colon === -1 ? line : line.slice(0, colon)
        const text = colon === -1 ? '' : line.slice(colon + 1).replace(/^ /, '')
        if (field === 'data') data.push(text)
        else if (field === 'event') event = text
        else if (field === 'id') id = text
      }
    }
  } finally {
    await reader.cancel().catch(() => undefined)
  }
}
