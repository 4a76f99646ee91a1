import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, constants, openSync, readSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it, vi } from 'vitest'
import { createLineWriter } from '../../../server/src/platform/logger.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

const program = fileURLToPath(new URL('fixtures/writer.ts', import.meta.url))
const code = (name: string) => Object.assign(new Error(name), { code: name })

/** A reader that takes the given number of bytes, and then none. */
function readerOf(takes: number) {
  const reader = { text: '', takes, fault: 'EAGAIN' }
  const writer = createLineWriter({
    writeNow(bytes) {
      const count = Math.min(bytes.length, reader.takes)
      if (count === 0) throw code(reader.fault)
      reader.takes -= count
      reader.text += bytes.subarray(0, count).toString()
      return count
    },
    lossLine: (lost) => `lost ${lost}\n`,
    maxBytes: 10,
  })
  return { reader, writer }
}

describe('lines for a slow reader', () => {
  it('are kept up to a size, and the first line after a loss reports the number of lost lines', async () => {
    vi.useFakeTimers()
    try {
      const { reader, writer } = readerOf(3)
      for (let line = 1; line <= 9; line++) writer.write(`${line}\n`)
      expect(reader.text).toBe('1\n2')
      expect(writer.lost()).toBe(3)
      reader.takes = Number.POSITIVE_INFINITY
      await vi.advanceTimersByTimeAsync(1_000)
      expect(reader.text).toBe('1\n2\n3\n4\n5\n6\nlost 3\n')
      writer.write('10\n')
      expect(reader.text).toBe('1\n2\n3\n4\n5\n6\nlost 3\n10\n')
      expect(vi.getTimerCount()).toBe(0)
    } finally {
      vi.useRealTimers()
    }
  })

  it('are lost while the disk is full, and counted once', () => {
    const { reader, writer } = readerOf(0)
    reader.fault = 'ENOSPC'
    for (let line = 1; line <= 3; line++) writer.write(`${line}\n`)
    expect(writer.lost()).toBe(3)
    reader.takes = Number.POSITIVE_INFINITY
    writer.write('4\n')
    expect(reader.text).toBe('lost 3\n4\n')
    expect(writer.lost()).toBe(3)
  })

  it('do not delay an exit beyond the deadline', () => {
    const { writer } = readerOf(0)
    writer.write('1\n')
    const begun = performance.now()
    writer.flush(50)
    expect(performance.now() - begun).toBeGreaterThanOrEqual(50)
  })
})

describe('a process whose standard output is a full pipe', () => {
  it('exits, and its last lines arrive when somebody reads again', async () => {
    await using directory = await temporaryDirectory()
    const fifo = join(directory.path, 'fifo')
    execFileSync('mkfifo', [fifo])
    const reader = openSync(fifo, constants.O_RDONLY | constants.O_NONBLOCK)
    const writer = openSync(fifo, constants.O_WRONLY)
    try {
      const child = spawn(process.execPath, [program, 'slow'], { stdio: ['ignore', writer, 'inherit', 'ipc'] })
      const exited = once(child, 'exit')
      // It has written more than a pipe holds, and continues.
      expect(await once(child, 'message')).toEqual(['goes on', undefined])
      child.send('exit')
      let text = ''
      const bytes = Buffer.alloc(65_536)
      const read = () => {
        try {
          text += bytes.toString('utf8', 0, readSync(reader, bytes))
        } catch {
          // It is empty.
        }
        return text
      }
      await expect.poll(read, { interval: 2 }).toContain('last line')
      expect(await exited).toEqual([7, null])
    } finally {
      closeSync(reader)
      closeSync(writer)
    }
  })

  it('also exits without a reader', async () => {
    const child = spawn(process.execPath, [program], { stdio: ['ignore', 'pipe', 'inherit', 'ipc'] })
    const exited = once(child, 'exit')
    await once(child, 'message')
    child.send('exit')
    expect(await exited).toEqual([7, null])
  })
})
