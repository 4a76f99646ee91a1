import { setTimeout as sleep } from 'node:timers/promises'
import { EventSourceParserStream } from 'eventsource-parser/stream'

/** Followers of the logs of apps, which reconnect with `Last-Event-ID` when their stream ends. */
export interface Followers {
  /** Returns the counts since the last call: lines read, lines missing or repeated, and streams reopened. */
  take(): { readonly lines: number; readonly wrong: readonly string[]; readonly reopened: number }
  stop(): Promise<void>
}

const reopenMs = 250

/** @param urls the addresses of the logs, one for each follower */
export function startFollowers(urls: readonly string[], apiKey: string): Followers {
  const stopping = new AbortController()
  let lines = 0
  let reopened = 0
  let wrong: string[] = []

  const follow = async (url: string): Promise<void> => {
    let lastEventId: string | undefined
    let last: number | undefined
    while (!stopping.signal.aborted) {
      try {
        for await (const event of events(url, apiKey, lastEventId, stopping.signal)) {
          lastEventId = event.id ?? lastEventId
          const number = numberOf(event.data)
          if (number === undefined) continue
          lines += 1
          if (last !== undefined && number !== last + 1) wrong.push(`line ${number} came after line ${last}`)
          last = number
        }
      } catch {
        // The server is unavailable; the follower reconnects.
      }
      if (stopping.signal.aborted) return
      reopened += 1
      await sleep(reopenMs)
    }
  }
  const running = urls.map(follow)
  return {
    take() {
      const taken = { lines, wrong, reopened }
      lines = 0
      reopened = 0
      wrong = []
      return taken
    },
    async stop() {
      stopping.abort()
      await Promise.all(running)
    },
  }
}

async function* events(url: string, apiKey: string, lastEventId: string | undefined, signal: AbortSignal) {
  const response = await fetch(url, {
    headers: {
      authorization: `Bearer ${apiKey}`,
      accept: 'text/event-stream',
      ...(lastEventId === undefined ? {} : { 'last-event-id': lastEventId }),
    },
    signal,
  })
  if (response.status !== 200 || response.body === null) throw new Error(`the log answered ${response.status}`)
  yield* response.body.pipeThrough(new TextDecoderStream()).pipeThrough(new EventSourceParserStream())
}

function numberOf(data: string): number | undefined {
  const { text } = JSON.parse(data) as { text?: string }
  const found = /^line (\d+)$/.exec(text ?? '')
  return found === null ? undefined : Number(found[1])
}
