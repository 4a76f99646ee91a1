import { appendFile, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, expect, it, vi } from 'vitest'
import { type LogState, noteGrowth, readExtent } from '../../../server/src/logs/extent.ts'
import { createMasker } from '../../../server/src/logs/masking.ts'
import { findStart, readLines } from '../../../server/src/logs/reader.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

afterEach(() => void vi.restoreAllMocks())

const day = 86_400_000
const start = Date.parse('2026-03-01T12:00:00Z')
const cap = { mostBytes: 16 << 20, free: async () => {} }

/** A log whose lines are written at times that the test sets. */
async function clockedLog(cleanup: AsyncDisposableStack) {
  const path = join(cleanup.use(await temporaryDirectory()).path, 'runtime.log')
  let state: LogState | null = null
  const write = async (text: string, at: number) => {
    vi.spyOn(Date, 'now').mockReturnValue(at)
    await appendFile(path, `${text}\n`)
    await utimes(path, at / 1000, at / 1000)
  }
  return {
    path,
    write,
    async record(text: string, at: number) {
      await write(text, at)
      state = await noteGrowth(path, state, true, cap)
    },
    async lines() {
      const part = await readLines(path, await readExtent(path), { from: 0, masker: createMasker([]), isFinal: true })
      return part.lines.map(({ at, noted, text }) => ({ at, noted, text }))
    },
  }
}

it('lines that are written after the clock was ahead have correct times, and earlier lines lose their wrong times', async () => {
  await using cleanup = new AsyncDisposableStack()
  const { path, record, lines } = await clockedLog(cleanup)
  await record('before', start)
  await record('ahead', start + day)
  await record('first', start + 5_000)
  await record('second', start + 6_000)
  expect(await lines()).toEqual([
    { at: start, noted: start, text: 'before' },
    { at: null, noted: start + 5_000, text: 'ahead' },
    { at: start + 5_000, noted: start + 5_000, text: 'first' },
    { at: start + 6_000, noted: start + 6_000, text: 'second' },
  ])
  const { position } = await findStart(path, await readExtent(path), { count: 10, since: start + 5_500 })
  expect(position).toBe('before\nahead\nfirst\n'.length)
})

it('unrecorded lines have correct times after the clock was ahead, too', async () => {
  await using cleanup = new AsyncDisposableStack()
  const { record, write, lines } = await clockedLog(cleanup)
  await record('ahead', start + day)
  await write('after', start)
  expect((await lines()).at(-1)).toEqual({ at: start, noted: start, text: 'after' })
})

it('times never go back when the clock is set back by less than a second', async () => {
  await using cleanup = new AsyncDisposableStack()
  const { record, lines } = await clockedLog(cleanup)
  await record('one', start)
  await record('two', start - 500)
  expect((await lines()).map(({ at }) => at)).toEqual([start, start])
})

it('lines before the clock’s correction after a start have no times, and all others keep theirs', async () => {
  await using cleanup = new AsyncDisposableStack()
  const { path, record, write, lines } = await clockedLog(cleanup)
  await record('one', start)
  await record('two', start + 5_000)
  await write('booting', 60_000)
  const booting = { at: null, noted: start + 5_000, text: 'booting' }
  expect((await lines()).at(-1)).toEqual(booting)
  await record('booted', 61_000)
  await record('three', start + day)
  expect(await lines()).toEqual([
    { at: start, noted: start, text: 'one' },
    { at: start + 5_000, noted: start + 5_000, text: 'two' },
    booting,
    { ...booting, text: 'booted' },
    { at: start + day, noted: start + day, text: 'three' },
  ])
  const { position } = await findStart(path, await readExtent(path), { count: 10, since: start + 5_000 })
  expect(position).toBe('one\n'.length)
})
