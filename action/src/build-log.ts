import { ApiError, type Client } from '@fairlead/server/client'
import { createParser, type EventSourceMessage } from 'eventsource-parser'
import { isTransient } from './answers.ts'

/** How many lines of its log a failure is shown with. */
export const tailLines = 30
/** Nobody waits longer for them, in milliseconds. */
const tailLimit = 5_000

/** The build's log of one deployment, as it grows. */
export interface BuildLog {
  /**
   * Hands on what comes until the log ends, breaks off, or cannot be had; called again, it goes on where it was. Tells
   * whether anything came. Never rejects.
   */
  follow(signal: AbortSignal): Promise<boolean>
  /** The last lines that came. */
  readonly tail: readonly string[]
}

export interface BuildLogOptions {
  /** Without a limit to an answer's duration. */
  readonly client: Client
  readonly params: { readonly project_id: string; readonly id: string }
  /** Gets the lines, some at a time; untrusted text. */
  readonly print: (lines: readonly string[]) => void
  /** The server speaks at least every 15 s; after this silence, in milliseconds, the connection is dead. */
  readonly silence?: number
}

export function createBuildLog({ client, params, print, silence = 45_000 }: BuildLogOptions): BuildLog {
  let tail: readonly string[] = []
  let lastEventId = ''
  let over = false

  const read = async (signal: AbortSignal, heard: () => void): Promise<boolean> => {
    const response = await client.deployments.logs({
      params,
      query: { stream: 'build', tail: '10000' },
      headers: { accept: 'text/event-stream', ...(lastEventId === '' ? {} : { 'last-event-id': lastEventId }) },
      signal,
    })
    if (!response.headers.get('content-type')?.startsWith('text/event-stream') || response.body === null) {
      over = true
      await response.body?.cancel()
      return false
    }
    let lines: string[] = []
    let any = false
    const parser = createParser({
      onEvent: (event) => {
        if (event.id) lastEventId = event.id
        if (event.event === 'end') over = true
        else lines.push(...lineOf(event))
      },
    })
    for await (const chunk of response.body.pipeThrough(new TextDecoderStream())) {
      heard()
      parser.feed(chunk)
      if (lines.length > 0) print(lines)
      any ||= lines.length > 0
      tail = [...tail, ...lines].slice(-tailLines)
      lines = []
      if (over) break
    }
    return any
  }

  return {
    get tail() {
      return tail
    },
    async follow(signal) {
      if (over) return false
      const dead = new AbortController()
      const timer = setTimeout(() => dead.abort(), silence)
      try {
        return await read(AbortSignal.any([signal, dead.signal]), () => timer.refresh())
      } catch (error) {
        // Refused, it is not asked again; the state of the deployment tells the rest.
        over ||= error instanceof ApiError && !isTransient(error)
        return false
      } finally {
        clearTimeout(timer)
      }
    },
  }
}

/** `{"text": "…"}`, with or without the time and the stream. */
function lineOf({ data }: EventSourceMessage): readonly string[] {
  try {
    const { text } = Object(JSON.parse(data)) as { text?: unknown }
    return typeof text === 'string' ? [text] : []
  } catch {
    return []
  }
}

/** The last lines of the build and of the app; `undefined` when they cannot be had. */
export async function readLogTail(
  client: Client,
  params: BuildLogOptions['params'],
): Promise<readonly string[] | undefined> {
  try {
    const signal = AbortSignal.timeout(tailLimit)
    const response = await client.deployments.logs({ params, query: { tail: String(tailLines) }, signal })
    const lines = (await response.text()).trimEnd().split('\n').slice(-tailLines)
    return lines.join('') === '' ? undefined : lines
  } catch {
    return undefined
  }
}
