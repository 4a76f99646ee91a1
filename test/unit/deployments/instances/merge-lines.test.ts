import { expect, it } from 'vitest'
import { mergeLines, type SourcePart } from '../../../../server/src/features/deployments/log-lines.ts'

/** A part that has a one-byte line at each of the times. */
const part = (source: string, from: number, times: readonly number[]): SourcePart => ({
  source,
  from,
  part: {
    lines: times.map((noted, index) => ({ at: noted, noted, text: `${source} ${noted}`, end: from + index + 1 })),
    next: from + times.length,
  },
})
const texts = (parts: readonly SourcePart[]) => mergeLines(parts).lines.map(({ line }) => line.text)

it('orders lines by time, and lines of the same time by log', () => {
  expect(texts([part('a', 0, [1, 3, 3]), part('b', 5, [3])])).toEqual(['a 1', 'a 3', 'a 3', 'b 3'])
})

it('holds back later lines of one log while another may have earlier lines', () => {
  const { lines, next } = mergeLines([part('a', 0, [1, 2]), part('b', 7, [2, 9])])
  expect(lines.map(({ line }) => line.text)).toEqual(['a 1', 'a 2', 'b 2'])
  expect(next).toEqual({ a: 2, b: 8 })
})

it('has all lines when only one log has grown', () => {
  const { lines, next } = mergeLines([part('a', 2, []), part('b', 0, [4, 9])])
  expect(lines).toHaveLength(2)
  expect(next).toEqual({ a: 2, b: 2 })
})

it('skips the rest of an overlong line, and keeps the order of lines without times', () => {
  const skipping = { source: 'a', from: 0, part: { lines: [], next: 50 } }
  expect(mergeLines([skipping, part('b', 0, [1])])).toEqual({ lines: [], next: { a: 50, b: 0 } })
  expect(texts([part('a', 0, [5, 0, 6]), part('b', 0, [7])])).toEqual(['a 5', 'a 0', 'a 6'])
})

it('takes logs of any number of lines', () => {
  const times = Array.from({ length: 200_000 }, (_, at) => at)
  expect(texts([part('a', 0, times)])).toHaveLength(times.length)
})
