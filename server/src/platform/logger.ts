import { constants, fstatSync, openSync, readFileSync, writeSync } from 'node:fs'
import { Socket } from 'node:net'
import { type Logger, pino } from 'pino'

export type { Logger } from 'pino'

// A server usually writes JSON, and saves the formatter's memory.
const prettyFactory = process.stdout.isTTY || process.stderr.isTTY ? (await import('pino-pretty')).prettyFactory : null

export interface Log {
  readonly logger: Logger
  /** Returns how many lines were lost so far, because the reader of the log did not take them. */
  lost(): number
}

/**
 * Opens a log that writes one JSON line per entry, or human-readable lines to a terminal. A reader that stops reading
 * stops only the log.
 *
 * @param options.copy also called with each line
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
  /** Returns the line that reports how many lines are missing at its position. */
  readonly lossLine: (lines: number) => string
  /** The bytes that are kept for a reader that does not keep up. */
  readonly maxBytes: number
}

interface Entry {
  readonly bytes: Buffer
  /** The number of lost lines that this line reports; 0 for a line of the log. */
  readonly missing: number
}

const firstRetryMs = 10
const lastRetryMs = 250
const flushPauseMs = 5

/**
 * Keeps at most `maxBytes`. From the first line that does not fit, lines are lost and counted until the reader has
 * taken the kept ones. Then a line says how many.
 */
export function createLineWriter({ writeNow, lossLine, maxBytes }: LineWriterOptions): LineWriter {
  const backlog = createBacklog(lossLine, maxBytes)
  let retryMs = firstRetryMs
  let timer: NodeJS.Timeout | undefined

  const push = () => {
    try {
      for (let first = backlog.first(); first !== undefined; first = backlog.first()) {
        backlog.taken(writeNow(first))
        retryMs = firstRetryMs
      }
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EAGAIN') return
      // The reader is gone, or the disk is full. Later lines try again.
      backlog.lose()
    }
  }
  const retryLater = () => {
    if (backlog.isEmpty() || timer !== undefined) return
    // The timer does not keep the process alive, which flushes when it exits.
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

/** Keeps the order of lines, and an extra line for lost lines. */
function createBacklog(lossLine: LineWriterOptions['lossLine'], maxBytes: number) {
  let kept: Entry[] = []
  let keptBytes = 0
  let lost = 0
  /** Lost lines that no extra line has reported yet. */
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
    taken(count: number): void {
      const [first] = kept
      if (first === undefined) return
      keptBytes -= count
      if (count < first.bytes.length) kept[0] = { ...first, bytes: first.bytes.subarray(count) }
      else kept.shift()
      if (kept.length === 0) keepLoss()
    },
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

/** About 5,000 lines of requests. */
const maxBytes = 1024 * 1024
/** The time for a slow reader when the process exits. */
const flushMs = 1_000
const checkMs = 1_000
const warn = 40

/**
 * Returns a writer to standard output or standard error. It never waits for the reader of the pipe, socket or terminal,
 * except to flush the kept lines when the process exits.
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

function nonBlocking({ fd }: NodeJS.WriteStream & { fd: 1 | 2 }): (bytes: Buffer) => number {
  const kind = fstatSync(fd)
  if (kind.isFile()) return (bytes) => writeSync(fd, bytes)
  try {
    // A separate open file description: other processes with the same pipe or terminal neither see nor change its flag.
    const own = openSync(`/proc/self/fd/${fd}`, constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY)
    return (bytes) => writeSync(own, bytes)
  } catch {
    // A socket, such as systemd's journal, or a pipe of another user.
    return sharedNonBlocking(fd)
  }
}

/**
 * All processes that have inherited the descriptor share the flag. A Node process that exits restores the flag that it
 * found at its start, for example a server that has handed over to this server. So the flag is checked from time to
 * time.
 */
function sharedNonBlocking(fd: number): (bytes: Buffer) => number {
  const sockets: Socket[] = []
  let checkedAt = Number.NEGATIVE_INFINITY
  return (bytes) => {
    if (performance.now() - checkedAt > checkMs) {
      checkedAt = performance.now()
      // Opening the descriptor as a socket sets the flag. A garbage-collected socket would close it.
      if (blocks(fd)) sockets.push(new Socket({ fd, readable: false, writable: true }))
    }
    return writeSync(fd, bytes)
  }
}

function blocks(fd: number): boolean {
  const flags = /^flags:\s*(\d+)$/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8'))?.[1] ?? '0'
  return (Number.parseInt(flags, 8) & constants.O_NONBLOCK) === 0
}
