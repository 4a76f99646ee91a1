/** One line of a deployment's log. */
export interface LogLine {
  /** The time it was written; `null` when unknown. */
  readonly at: string | null
  readonly stream: 'build' | 'runtime'
  readonly text: string
}

/** Parses the data of an event, `{at, stream, text}`. Any other data becomes the text of the line. */
export function parseLogLine(data: string): LogLine {
  try {
    const { at, stream, text } = Object(JSON.parse(data)) as Partial<Record<keyof LogLine, unknown>>
    if (typeof text === 'string') {
      const hasTime = typeof at === 'string' && !Number.isNaN(Date.parse(at))
      return { at: hasTime ? at : null, stream: stream === 'runtime' ? 'runtime' : 'build', text }
    }
  } catch {
    // Not JSON: a plain line.
  }
  return { at: null, stream: 'build', text: data }
}
