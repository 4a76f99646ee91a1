/** Writes lines to a reader that may stop reading, without ever waiting for it. */
export interface LineWriter {
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
