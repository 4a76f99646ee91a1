import { expect, it } from 'vitest'
import { createWaker } from '../../../server/src/features/deployments/reconciler.ts'

const never = new AbortController().signal
const hourMs = 3_600_000

it('a wake ends the current pause', async () => {
  const waker = createWaker()
  const pause = waker.pause(hourMs, never)
  waker.wake()
  expect(await pause).toBe(true)
})

it('a wake without a pause ends only the next pause', async () => {
  const waker = createWaker()
  waker.wake()
  expect(await waker.pause(hourMs, never)).toBe(true)
  expect(await waker.pause(1, never)).toBe(false)
})

it('a pause whose signal aborts ends without a wake', async () => {
  expect(await createWaker().pause(hourMs, AbortSignal.abort())).toBe(false)
})
