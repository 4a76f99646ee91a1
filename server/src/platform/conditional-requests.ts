export interface Conditions {
  readonly 'if-match'?: string | undefined
  readonly 'if-none-match'?: string | undefined
  readonly 'if-modified-since'?: string | undefined
  readonly 'if-unmodified-since'?: string | undefined
  readonly 'if-range'?: string | string[] | undefined
  readonly range?: string | undefined
}

export interface Representation {
  /** A strong ETag, with its quotes. */
  readonly etag: string
  readonly lastModified: Date
  /** The size in bytes. */
  readonly size: number
}

/** The first and the last byte, both included. `end` is `start - 1` for no bytes. */
export interface ByteRange {
  readonly start: number
  readonly end: number
}

export type Outcome = { readonly status: 200 | 304 | 412 | 416 } | { readonly status: 206; readonly range: ByteRange }

/**
 * Decides status and range of a GET or HEAD, by the order of RFC 9110 §13.2.2. For several ranges, the whole file is
 * sent.
 */
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

  // A range applies only to GET (§14.2); when If-Range does not match, the whole file is sent (§13.1.5).
  const ifRange = given['if-range']
  if (method !== 'GET' || given.range === undefined) return { status: 200 }
  if (ifRange !== undefined && ifRange !== file.etag && date(String(ifRange)) !== modified) return { status: 200 }
  return byteRange(given.range, file.size)
}

/** Reads a single range of bytes (RFC 9110 §14.1.2). Any other value is ignored, as if there were none. */
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

/** Returns milliseconds, or NaN for anything but a date: every comparison with NaN is false. */
function date(value: string | undefined): number {
  return value === undefined ? Number.NaN : Date.parse(value)
}
