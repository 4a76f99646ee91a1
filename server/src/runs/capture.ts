import { Writable } from 'node:stream'

/** The bytes of a command's output that are kept: the last ones. */
const mostBytes = 64 * 1024
/** More bytes before them than a secret that is searched for takes, however it is written: they may begin within one. */
const marginBytes = 1_024
const keptBytes = mostBytes + marginBytes
/** The chunks that are put together at once. */
const mostChunks = 1_000

/** Keeps the end of what commands print, in the order in which it comes. */
export interface Capture {
  keep(chunk: Buffer): void
  /** A stream whose bytes are kept. */
  open(): Writable
  /** Returns the end of the output, masked. */
  text(mask: (text: string) => string): string
}

export function createCapture(): Capture {
  let chunks: Buffer[] = []
  let length = 0
  let isCut = false
  const tidy = (): Buffer => {
    const all = Buffer.concat(chunks)
    isCut ||= all.length > keptBytes
    const kept = all.subarray(Math.max(0, all.length - keptBytes))
    chunks = [kept]
    length = kept.length
    return kept
  }
  const keep = (chunk: Buffer): void => {
    chunks.push(chunk)
    length += chunk.length
    if (length > 2 * keptBytes || chunks.length > mostChunks) tidy()
  }
  return {
    keep,
    open: () =>
      new Writable({
        write(chunk: Buffer, _encoding, written) {
          keep(chunk)
          written()
        },
      }),
    text(mask) {
      const masked = Buffer.from(mask(tidy().toString())).subarray(isCut ? marginBytes : 0)
      // Bytes that are no text have become longer.
      const shown = masked.subarray(-mostBytes).toString()
      // PostgreSQL stores no NUL.
      return (isCut || masked.length > mostBytes ? '…' : '') + shown.replaceAll('\0', '\ufffd')
    },
  }
}
