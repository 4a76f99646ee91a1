import { ApiError, type Client } from '@fairlead/server/client'
import { createParser, type EventSourceMessage } from 'eventsource-parser'
import { isTransient } from './answers.ts'

/** Number of last log lines that are shown with a failure. */
export const tailLines = 30
/** Time limit for reading them, in milliseconds. */
const tailTimeout = 5_000

/** The build log of one deployment, followed while it is written. */
export interface BuildLog {
  /**
   * Prints new lines until the log ends, the connection breaks, or the log is unavailable. The next call resumes after
   * the last line. Resolves to true when there were new lines. Never rejects.
   */
  follow(signal: AbortSignal): Promise<boolean>
  /** The last lines received. */
  readonly tail: readonly string[]
}

export interface BuildLogOptions {
  /** A client without a time limit for answers. */
  readonly client: Client
  readonly params: { readonly project_id: string; readonly id: string }
  /** Called with new lines, which are untrusted text. */
  readonly print: (lines: readonly string[]) => void
  /** Milliseconds without data after which the connection counts as dead. The server sends something every 15 s. */
  readonly silence?: number
}

export function createBuildLog({ client, params, print, silence = 45_000 }: BuildLogOptions): BuildLog {
  let tail: readonly string[] = []
  let lastEventId = ''
  let over = false

  const read = async (signal: AbortSignal, onData: () => void): Promise<boolean> => {
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
      onData()
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
        // Not requested again after a refusal, because the state of the deployment is enough to go on.
        over ||= error instanceof ApiError && !isTransient(error)
        return false
      } finally {
        clearTimeout(timer)
      }
    },
  }
}

/** Reads the line from `{"text": "…"}`, which may also have the time and the stream. */
function lineOf({ data }: EventSourceMessage): readonly string[] {
  try {
    const { text } = Object(JSON.parse(data)) as { text?: unknown }
    return typeof text === 'string' ? [text] : []
  } catch {
    return []
  }
}

/** Returns the last lines of the build and of the app; `undefined` when there are none or reading them fails. */
export async function readLogTail(
  client: Client,
  params: BuildLogOptions['params'],
): Promise<readonly string[] | undefined> {
  try {
    const signal = AbortSignal.timeout(tailTimeout)
    const response = await client.deployments.logs({ params, query: { tail: String(tailLines) }, signal })
    const lines = (await response.text()).trimEnd().split('\n').slice(-tailLines)
    return lines.join('') === '' ? undefined : lines
  } catch {
    return undefined
  }
}
