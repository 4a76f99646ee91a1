import { expect, test } from 'vitest'
import { pollDelay } from '../../../action/src/api/deploy.ts'
import { elapsed } from '../../../action/src/log.ts'

test('the delay between polls grows from one second to fifteen', () => {
  const delays = Array.from({ length: 20 }, (_, polls) => pollDelay(polls))
  expect(delays[0]).toBe(1_000)
  expect(delays.at(-1)).toBe(15_000)
  expect(delays).toEqual(delays.toSorted((a, b) => a - b))
})

test.each([
  [0, '0 s'],
  [59_999, '59 s'],
  [60_000, '1 min 0 s'],
  [3_725_000, '62 min 5 s'],
])('%d ms is shown as %s', (milliseconds, text) => {
  expect(elapsed(milliseconds)).toBe(text)
})
