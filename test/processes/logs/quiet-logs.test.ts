import { appendFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it, vi } from 'vitest'
import type * as extent from '../../../server/src/logs/extent.ts'
import { createRecorder } from '../../../server/src/logs/recorder.ts'
import { readAllMarks } from '../../../server/src/logs/times.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

const looks = vi.hoisted(() => new Map<string, number>())
vi.mock('../../../server/src/logs/extent.ts', async (original) => {
  const real = await original<typeof extent>()
  const noteGrowth: typeof extent.noteGrowth = (path, ...rest) => {
    looks.set(path, (looks.get(path) ?? 0) + 1)
    return real.noteGrowth(path, ...rest)
  }
  return { ...real, noteGrowth }
})

const intervalMs = 250

it('a quiet log is not checked, and recorded as soon as it grows', async () => {
  await using directory = await temporaryDirectory()
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  const path = join(directory.path, 'runtime.log')
  await writeFile(path, '')
  const recorder = createRecorder({ mostBytes: 1_000_000 })
  const ended = Promise.withResolvers<void>()
  await recorder.record(path, ended.promise)
  const looksIn = async (intervals: number) => {
    const before = looks.get(path) ?? 0
    for (let passed = 0; passed < intervals; passed += 1) {
      vi.advanceTimersByTime(intervalMs)
      // A running check delays the next one.
      await recorder.look(path)
    }
    return (looks.get(path) ?? 0) - before - intervals
  }
  expect(await looksIn(4)).toBeGreaterThan(0)
  // One minute.
  expect(await looksIn(239)).toBeLessThanOrEqual(1)
  expect(await readAllMarks(path)).toHaveLength(1)

  await appendFile(path, 'line\n')
  const { mtimeMs } = await stat(path)
  // No timer runs: the system reports it.
  await expect.poll(() => readAllMarks(path)).toMatchObject([{}, { end: 5, at: mtimeMs, isExact: true }])

  // A growing log is checked as before. A check that still runs delays the next one.
  await appendFile(path, 'more\n')
  const marksLater = () => {
    vi.advanceTimersByTime(intervalMs)
    return readAllMarks(path)
  }
  await expect.poll(marksLater).toHaveLength(3)
  ended.resolve()
  vi.useRealTimers()
})
