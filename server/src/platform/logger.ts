import { constants, fstatSync, openSync, readFileSync, writeSync } from 'node:fs'
import { Socket } from 'node:net'
import { type Logger, pino } from 'pino'

export type { Logger } from 'pino'

// A server writes JSON as a rule, and does without the memory of the formatter.
const prettyFactory = process.stdout.isTTY || process.stderr.isTTY ? (await import('pino-pretty')).prettyFactory : null

/** The log of a program. */
export interface Log {
  readonly logger: Logger
  /** Returns how many lines were lost so far, because the reader of the log did not take them. */
  lost(): number
}

/**
 * Opens a log that writes one JSON line an entry, or human-readable lines when the destination is a terminal. A reader that
 * stops reading stops nothing but the log.
 *
 * @param options.copy is called with each line as well
 */
export function openLog(options: {
  readonly level: string
  readonly destination: 'stdout' | 'stderr'
  readonly copy?: ((line: string) => void) | undefined
}): Log {
  const stream = options.destination === 'stdout' ? process.stdout : process.stderr
  const settings = { level: options.level, base: null, timestamp: () => `,"time":"${new Date().toISOString()}"` }
  const output = openOutput(stream)
  const show =
    prettyFactory !== null && stream.isTTY
      ? prettyFactory({ translateTime: 'SYS:HH:MM:ss', singleLine: true })
      : (line: string) => line
  const write = (line: string) => {
    output.write(show(line))
    options.copy?.(line.trimEnd())
  }
  return { logger: pino(settings, { write }), lost: output.lost }
}

/** Creates a logger as `openLog` does, for a command. */
export function createLogger(options: { readonly level: string; readonly destination: 'stdout' | 'stderr' }): Logger {
  return openLog(options).logger
}

/** Writes lines to a reader that may stop reading, without ever waiting for it. */
interface LineWriter {
  /** Writes a line that ends with a line break, or keeps it for later. Returns at once. */
  write(line: string): void
  /** Returns how many lines were lost so far: the reader did not keep up, or the disk is full. */
  lost(): number
  /** Writes the kept lines. Blocks the process until the reader has taken them, at most `deadlineMs`. */
  flush(deadlineMs: number): void
}

export interface LineWriterOptions {
  /**
   * Writes bytes without waiting, and returns how many it has written. Throws an error with the code `EAGAIN` when the
   * reader takes none now, and other errors when nothing can be written.
   */
  readonly writeNow: (bytes: Buffer) => number
  /** Returns the line that says how many lines are missing where it stands. */
  readonly lossLine: (lines: number) => string
  /** How many bytes are kept for a reader that does not keep up. */
  readonly maxBytes: number
}

interface Entry {
  readonly bytes: Buffer
  /** The number of lost lines that it tells; 0 for a line of the log. */
  readonly missing: number
}

const firstRetryMs = 10
const lastRetryMs = 250
const flushPauseMs = 5

/**
 * Creates a writer that keeps at most `maxBytes`. When a line does not fit any more, it and all that follow are lost and
 * counted, until the reader has taken what is kept; then a line says how many were lost.
 */
export function createLineWriter({ writeNow, lossLine, maxBytes }: LineWriterOptions): LineWriter {
  const backlog = createBacklog(lossLine, maxBytes)
  let retryMs = firstRetryMs
  let timer: NodeJS.Timeout | undefined

  /** Writes what the reader takes now. */
  const push = () => {
    try {
      for (let first = backlog.first(); first !== undefined; first = backlog.first()) {
        backlog.taken(writeNow(first))
        retryMs = firstRetryMs
      }
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EAGAIN') return
      // Nobody reads any more, or the disk is full. Later lines are tried again.
      backlog.lose()
    }
  }
  const retryLater = () => {
    if (backlog.isEmpty() || timer !== undefined) return
    // A process that has nothing else to do may end; it flushes at its exit.
    timer = setTimeout(() => {
      timer = undefined
      push()
      retryLater()
    }, retryMs).unref()
    retryMs = Math.min(2 * retryMs, lastRetryMs)
  }
  return {
    write(line) {
      const isIdle = backlog.isEmpty()
      if (!backlog.add(line)) return
      // Otherwise the timer tries again; a system call for each line would be in vain.
      if (isIdle) push()
      retryLater()
    },
    lost: backlog.lost,
    flush(deadlineMs) {
      const deadline = performance.now() + deadlineMs
      for (push(); !backlog.isEmpty() && performance.now() < deadline; push()) {
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, flushPauseMs)
      }
    },
  }
}

/** Keeps lines in their order, and counts those that were lost; a line of its own says how many. */
function createBacklog(lossLine: LineWriterOptions['lossLine'], maxBytes: number) {
  let kept: Entry[] = []
  let keptBytes = 0
  let lost = 0
  /** Lines that were lost since the last line that says so. */
  let unsaid = 0

  const keep = (line: string, missing = 0) => {
    const bytes = Buffer.from(line)
    kept.push({ bytes, missing })
    keptBytes += bytes.length
  }
  const keepLoss = () => {
    if (unsaid > 0) keep(lossLine(unsaid), unsaid)
    unsaid = 0
  }
  return {
    isEmpty: () => kept.length === 0,
    lost: () => lost,
    /** Returns the bytes to write next. */
    first: () => kept[0]?.bytes,
    /** Returns false when the line does not fit, and is lost. */
    add(line: string): boolean {
      if (kept.length > 0 && (unsaid > 0 || keptBytes + line.length > maxBytes)) {
        lost += 1
        unsaid += 1
        return false
      }
      keepLoss()
      keep(line)
      return true
    },
    /** Removes bytes that were written from the first line. */
    taken(count: number): void {
      const [first] = kept
      if (first === undefined) return
      keptBytes -= count
      if (count < first.bytes.length) kept[0] = { ...first, bytes: first.bytes.subarray(count) }
      else kept.shift()
      if (kept.length === 0) keepLoss()
    },
    /** Gives up all lines. */
    lose(): void {
      for (const { missing } of kept) {
        if (missing === 0) lost += 1
        unsaid += Math.max(missing, 1)
      }
      kept = []
      keptBytes = 0
    },
  }
}

/** Some 5,000 lines of requests. */
const maxBytes = 1024 * 1024
/** At the end of the process, for a reader that is slow. */
const flushMs = 1_000
const checkMs = 1_000
const warn = 40

/**
 * Returns a writer to standard output or standard error, which may be a pipe, a socket or a terminal whose reader stops: it
 * never waits for the reader, except that what is still kept is flushed when the process exits.
 */
function openOutput(stream: NodeJS.WriteStream & { fd: 1 | 2 }): LineWriter {
  const writer = createLineWriter({ writeNow: nonBlocking(stream), lossLine, maxBytes })
  process.once('exit', () => writer.flush(flushMs))
  return writer
}

function lossLine(lost: number): string {
  const time = new Date().toISOString()
  const msg = 'lines of the log were lost here, because its reader did not take them'
  return `${JSON.stringify({ level: warn, time, lost, msg })}\n`
}

/** Returns a function that writes to a stream's descriptor, and throws an error with `EAGAIN` in place of waiting. */
function nonBlocking({ fd }: NodeJS.WriteStream & { fd: 1 | 2 }): (bytes: Buffer) => number {
  const kind = fstatSync(fd)
  if (kind.isFile()) return (bytes) => writeSync(fd, bytes)
  try {
    // A description of its own: other processes with the same pipe or terminal neither see its flag nor can change it.
    const own = openSync(`/proc/self/fd/${fd}`, constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY)
    return (bytes) => writeSync(own, bytes)
  } catch {
    // A socket, such as that of systemd's journal, or a pipe that another user has made.
    return sharedNonBlocking(fd)
  }
}

/**
 * The flag belongs to all processes that have inherited the descriptor. A Node that exits puts back the flag that it found
 * at its start, such as a server that has handed over to this one; so it is looked at from time to time.
 */
function sharedNonBlocking(fd: number): (bytes: Buffer) => number {
  const sockets: Socket[] = []
  let checkedAt = Number.NEGATIVE_INFINITY
  return (bytes) => {
    if (performance.now() - checkedAt > checkMs) {
      checkedAt = performance.now()
      // Opening it as a socket sets the flag. One that is collected would close the descriptor.
      if (blocks(fd)) sockets.push(new Socket({ fd, readable: false, writable: true }))
    }
    return writeSync(fd, bytes)
  }
}

function blocks(fd: number): boolean {
  const flags = /^flags:\s*(\d+)$/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8'))?.[1] ?? '0'
  return (Number.parseInt(flags, 8) & constants.O_NONBLOCK) === 0
}
