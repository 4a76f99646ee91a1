import { expect, it } from 'vitest'
import { createWaker } from '../../server/src/deployments/reconciler/waker.ts'

const never = new AbortController().signal
const hourMs = 3_600_000

it('ends the pause that is under way', async () => {
  const waker = createWaker()
  const pause = waker.pause(hourMs, never)
  waker.wake()
  expect(await pause).toBe(true)
})

it('ends the next pause when there is none, and only that one', async () => {
  const waker = createWaker()
  waker.wake()
  expect(await waker.pause(hourMs, never)).toBe(true)
  expect(await waker.pause(1, never)).toBe(false)
})

it('ends a pause without a wake when the signal aborts', async () => {
  expect(await createWaker().pause(hourMs, AbortSignal.abort())).toBe(false)
})
