import { readFileSync } from 'node:fs'
import { SourceMap } from 'node:module'
import { fileURLToPath } from 'node:url'

/** More than the places from which errors ever come. */
const mostPlaces = 10_000

/**
 * Lets the stack traces of this process name lines of the sources, by the source maps beside the programs. It reads a
 * map when a trace first names a place in its file, and keeps only the place. Node's built-in support reads all maps at
 * the start, which takes a fifth of a second, and keeps them.
 */
export function nameSourceLines(): void {
  const places = new Map<string, string>()
  Error.prepareStackTrace = (error, calls) => {
    const maps = new Map<string, SourceMap | null>()
    const frames = calls.map((call) => {
      const [file, line, column] = [call.getFileName(), call.getLineNumber(), call.getColumnNumber()]
      if (!file?.startsWith('file:') || line === null || column === null) return `\n    at ${call}`
      const written = `${file}:${line}:${column}`
      const place = places.get(written) ?? sourceOf({ file, line, column }, maps) ?? written
      if (places.size < mostPlaces) places.set(written, place)
      return `\n    at ${String(call).replace(written, () => place)}`
    })
    return `${nameOf(error)}${frames.join('')}`
  }
}

/** Calls `Error.prototype.toString`. An error may have fields that throw. */
function nameOf(error: unknown): string {
  try {
    return Error.prototype.toString.call(error)
  } catch {
    return 'Error'
  }
}

interface Place {
  /** A URL. */
  readonly file: string
  readonly line: number
  readonly column: number
}

function sourceOf({ file, line, column }: Place, maps: Map<string, SourceMap | null>): string | undefined {
  const map = maps.has(file) ? maps.get(file) : readMap(file)
  maps.set(file, map ?? null)
  // `findEntry` counts from 0.
  const entry = map?.findEntry(line - 1, column - 1)
  if (entry === undefined || !('originalSource' in entry)) return undefined
  const source = fileURLToPath(new URL(entry.originalSource, file))
  return `${source}:${entry.originalLine + 1}:${entry.originalColumn + 1}`
}

/** Returns `null` for a file without a map, such as a source. */
function readMap(file: string): SourceMap | null {
  try {
    return new SourceMap(JSON.parse(readFileSync(fileURLToPath(`${file}.map`), 'utf8')))
  } catch {
    return null
  }
}
