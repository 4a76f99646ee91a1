import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createDiskGuard, type DiskLimit } from '../../../server/src/features/deployments/disk-guard.ts'
import { assertRoom, freeBytesIn } from '../../../server/src/platform/disk/free-space.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

let directory: Awaited<ReturnType<typeof temporaryDirectory>>
beforeAll(async () => {
  directory = await temporaryDirectory()
})
afterAll(() => directory[Symbol.asyncDispose]())

/** More space than any disk has. */
const wholeDisk = Number.POSITIVE_INFINITY
const guardWith = (reserveBytes: number) => createDiskGuard({ directory: directory.path, reserveBytes })

/** Allows 100 bytes more than `before`; `now` is the measured size. */
const limit = (before: number, now: number): DiskLimit => ({
  stage: 'build',
  mostBytes: 100,
  baseline: async () => before,
  measure: async () => now,
})

const running = new AbortController().signal

/** Runs until its signal aborts, and rejects with the signal's reason. */
const endlessStep = (signal: AbortSignal): Promise<never> =>
  new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))

describe('a guarded step', () => {
  it('resolves with its result while it writes no more than it may', async () => {
    const { value, withinLimit } = await guardWith(0).guard(limit(1_000, 1_100), running, async () => 'done')
    expect(value).toBe('done')
    await expect(withinLimit()).resolves.toBeUndefined()
  })

  it('is aborted when it has exceeded its limit and the free space has fallen', async () => {
    let free = 1e15
    const filling = { ...limit(1_000, 1_101), freeElsewhere: async () => (free -= 1e12) }
    const guarded = guardWith(0).guard(filling, running, endlessStep)
    await expect(guarded).rejects.toMatchObject({ failure: { stage: 'build', code: 'too_large' } })
  })

  it('is aborted when it has exceeded its limit while other programs freed space', async () => {
    let free = 0
    const hidden = { ...limit(1_000, 1_101), freeElsewhere: async () => (free += 1e12) }
    const guarded = guardWith(0).guard(hidden, running, endlessStep)
    await expect(guarded).rejects.toMatchObject({ failure: { stage: 'build', code: 'too_large' } })
  })

  it('fails when it has written more than it may by its end', async () => {
    const { withinLimit } = await guardWith(0).guard(limit(0, 101), running, async () => 'done')
    await expect(withinLimit()).rejects.toMatchObject({ failure: { stage: 'build', code: 'too_large' } })
  })

  it('fails as too large when a folder cannot be measured, before or after it', async () => {
    const unreadable = limit(Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY)
    const { withinLimit } = await guardWith(0).guard(unreadable, running, async () => 'done')
    await expect(withinLimit()).rejects.toMatchObject({ failure: { code: 'too_large' } })
  })

  it('does not begin when its runtime’s disk has less free space than the reserve', async () => {
    const full = { ...limit(0, 0), freeElsewhere: async () => 99 }
    const guarded = guardWith(100).guard(full, running, async () => 'done')
    await expect(guarded).rejects.toMatchObject({ failure: { stage: 'build', code: 'no_space' } })
    const room = { ...limit(0, 0), freeElsewhere: async () => 100 }
    expect((await guardWith(100).guard(room, running, async () => 'done')).value).toBe('done')
  })

  it('does not begin when the free space is less than the reserve', async () => {
    let begun = false
    const guarded = guardWith(wholeDisk).guard(limit(0, 0), running, async () => {
      begun = true
    })
    await expect(guarded).rejects.toMatchObject({ failure: { stage: 'build', code: 'no_space' } })
    expect(begun).toBe(false)
  })

  it('fails with its original error when it ends within its limit', async () => {
    const guarded = guardWith(0).guard(limit(0, 0), running, () => Promise.reject(new Error('exit code 1')))
    await expect(guarded).rejects.toThrow('exit code 1')
  })

  it('ends with the reason of the outer signal when that signal aborts', async () => {
    const canceled = new AbortController()
    const guarded = guardWith(0).guard(limit(0, 0), canceled.signal, (signal) => {
      canceled.abort(new Error('canceled'))
      return signal.aborted ? Promise.reject(signal.reason) : endlessStep(signal)
    })
    await expect(guarded).rejects.toThrow('canceled')
  })
})

describe('room for another deployment', () => {
  it('is available while the reserve is free', async () => {
    await expect(assertRoom(directory.path, 0)).resolves.toBeUndefined()
    expect(await freeBytesIn(directory.path)).toBeGreaterThan(0)
  })

  it('is denied below the reserve, with an error that says to call the operator', async () => {
    await expect(assertRoom(directory.path, wholeDisk)).rejects.toMatchObject({
      code: 'server_error',
      message: expect.stringContaining('operator'),
    })
  })
})
