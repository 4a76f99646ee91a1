import { constants, fstatSync, openSync, readFileSync, writeSync } from 'node:fs'
import { Socket } from 'node:net'
import { createLineWriter, type LineWriter } from './line-writer.ts'

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
export function openOutput(stream: NodeJS.WriteStream & { fd: 1 | 2 }): LineWriter {
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
