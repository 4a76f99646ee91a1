/** One line of a deployment's log. */
export interface LogLine {
  /** When it was written; `null` where that is not known. */
  readonly at: string | null
  readonly stream: 'build' | 'runtime'
  readonly text: string
}

/** The data of an event: `{at, stream, text}`; anything else is taken for the text itself. */
export function lineOf(data: string): LogLine {
  try {
    const { at, stream, text } = Object(JSON.parse(data)) as Partial<Record<keyof LogLine, unknown>>
    if (typeof text === 'string') {
      const known = typeof at === 'string' && !Number.isNaN(Date.parse(at))
      return { at: known ? at : null, stream: stream === 'runtime' ? 'runtime' : 'build', text }
    }
  } catch {
    // Not JSON: a plain line.
  }
  return { at: null, stream: 'build', text: data }
}
