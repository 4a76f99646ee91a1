import type { Readable } from 'node:stream'

export interface OutputFrame {
  readonly stream: 'stdout' | 'stderr'
  readonly bytes: Buffer
}

const headerBytes = 8
const standardError = 2
/** The engine cuts lines after 16 KiB and adds a time. Frames of commands are as long as the engine's reads, 32 KiB. */
const mostFrameBytes = 1_048_576

/** Like `readBatches`, but frame by frame. */
export async function* readFrames(from: Readable): AsyncGenerator<OutputFrame> {
  for await (const batch of readBatches(from)) yield* batch
}

/**
 * Splits the output of a program without a terminal into frames. Each batch contains the frames that have arrived. A
 * frame has a header of eight bytes: the number of the stream, three zeros, and the length as a big-endian number.
 *
 * @throws Error when the stream does not consist of such frames; an incomplete last frame is dropped without an error
 */
export async function* readBatches(from: Readable): AsyncGenerator<OutputFrame[]> {
  let rest: Buffer = Buffer.alloc(0)
  for await (const chunk of from) {
    rest = rest.length === 0 ? (chunk as Buffer) : Buffer.concat([rest, chunk as Buffer])
    const frames: OutputFrame[] = []
    let at = 0
    while (rest.length - at >= headerBytes) {
      const length = rest.readUInt32BE(at + 4)
      if (length > mostFrameBytes) throw new Error('the engine sent output in a form that is not known')
      if (rest.length - at - headerBytes < length) break
      const bytes = rest.subarray(at + headerBytes, at + headerBytes + length)
      frames.push({ stream: rest[at] === standardError ? 'stderr' : 'stdout', bytes })
      at += headerBytes + length
    }
    rest = rest.subarray(at)
    if (frames.length > 0) yield frames
  }
}

/**
 * The longest line of JSON. BuildKit sends up to 16 MiB, in base64, when several steps print much at the same time. The
 * messages of the engine have some hundred bytes.
 */
const mostLineBytes = 24 * 1_048_576

const newline = 10

/** Reads JSON values, one per line: events, and the progress of images and builds. */
export async function* readJsonLines<T>(from: Readable): AsyncGenerator<T> {
  let parts: Buffer[] = []
  let length = 0
  const take = (): string => {
    const line = Buffer.concat(parts).toString()
    parts = []
    length = 0
    return line
  }
  for await (const chunk of from) {
    let rest = chunk as Buffer
    for (let end = rest.indexOf(newline); end !== -1; end = rest.indexOf(newline)) {
      parts.push(rest.subarray(0, end))
      rest = rest.subarray(end + 1)
      const line = take()
      if (line.trim() !== '') yield JSON.parse(line) as T
    }
    parts.push(rest)
    length += rest.length
    if (length > mostLineBytes) throw new Error('the engine sent a line that is too long')
  }
  const line = take()
  if (line.trim() !== '') yield JSON.parse(line) as T
}
