/** The request's fields that decide how much of a file is answered, by their lower-case names. */
export interface Conditions {
  readonly 'if-match'?: string | undefined
  readonly 'if-none-match'?: string | undefined
  readonly 'if-modified-since'?: string | undefined
  readonly 'if-unmodified-since'?: string | undefined
  readonly 'if-range'?: string | string[] | undefined
  readonly range?: string | undefined
}

export interface Representation {
  /** Strong, with its quotes. */
  readonly etag: string
  readonly lastModified: Date
  /** Bytes. */
  readonly size: number
}

/** Bytes from the first to the last, both included. */
export interface ByteRange {
  readonly start: number
  readonly end: number
}

export type Outcome = { readonly status: 200 | 304 | 412 | 416 } | { readonly status: 206; readonly range: ByteRange }

/** What a GET or HEAD is answered with, in the order of RFC 9110 §13.2.2. Several ranges at once are answered whole. */
export function outcome(method: string, given: Conditions, file: Representation): Outcome {
  const modified = Math.floor(file.lastModified.getTime() / 1000) * 1000
  const ifMatch = given['if-match']
  const ifNoneMatch = given['if-none-match']
  if (ifMatch !== undefined) {
    if (!tags(ifMatch).some((tag) => tag === '*' || tag === file.etag)) return { status: 412 }
  } else if (modified > date(given['if-unmodified-since'])) return { status: 412 }

  if (ifNoneMatch !== undefined) {
    if (tags(ifNoneMatch).some((tag) => tag === '*' || tag.replace(/^W\//, '') === file.etag)) return { status: 304 }
  } else if (modified <= date(given['if-modified-since'])) return { status: 304 }

  // Ranges are for GET (§14.2); an If-Range that does not hold asks for the whole (§13.1.5).
  const ifRange = given['if-range']
  if (method !== 'GET' || given.range === undefined) return { status: 200 }
  if (ifRange !== undefined && ifRange !== file.etag && date(String(ifRange)) !== modified) return { status: 200 }
  return byteRange(given.range, file.size)
}

/** RFC 9110 §14.1.2. What is no single range of bytes is ignored, as if there were none. */
function byteRange(given: string, size: number): Outcome {
  const [whole, from = '', to = ''] = /^bytes=[ \t]*(\d*)-(\d*)[ \t]*$/i.exec(given) ?? []
  if (whole === undefined || (from === '' && to === '')) return { status: 200 }
  const start = from === '' ? Math.max(0, size - Number(to)) : Number(from)
  const last = from === '' || to === '' ? Number.POSITIVE_INFINITY : Number(to)
  if (last < start) return { status: 200 }
  return start < size ? { status: 206, range: { start, end: Math.min(last, size - 1) } } : { status: 416 }
}

function tags(list: string): string[] {
  return list.match(/\*|(?:W\/)?"[^"]*"/g) ?? []
}

/** Milliseconds; NaN, which nothing compares with, for what is no date. */
function date(value: string | undefined): number {
  return value === undefined ? Number.NaN : Date.parse(value)
}
