import { describe, expect, it, test } from 'vitest'
import {
  beginning,
  countFrom,
  type Position,
  passedOf,
  sinceOf,
  unknown,
} from '../../../../server/src/runtimes/docker/output-position.ts'

const timeOf = (ms: number): string => new Date(Date.UTC(2026, 0, 1) + ms).toISOString().replace('Z', '000000Z')

/** Returns the frames after a position, when the engine lists the frames from its time on. */
function readFrom(position: Position, frames: readonly string[]): string[] {
  const [first] = position
  const listed = frames.filter((at) => first === undefined || at >= first.at)
  return listed.slice(passedOf(position, listed[0] ?? ''))
}

/** Frames of some seconds, 70 ms apart, whose times are up to 900 ms too early. */
const frames = Array.from({ length: 120 }, (_, index) => timeOf(index * 70 - ((index * 389) % 900)))

describe('a position in the output of a container', () => {
  it('is followed by the unread frames, wherever it is, even with times in the wrong order', () => {
    for (let read = 0; read <= frames.length; read += 1) {
      const counter = countFrom(beginning)
      for (const at of frames.slice(0, read)) counter.pass(at)
      expect(readFrom(counter.position(), frames)).toEqual(frames.slice(read))
    }
  })

  it('that is restored repeatedly stays exact', () => {
    let position = beginning
    for (let read = 0; read < frames.length; read += 7) {
      const rest = readFrom(position, frames)
      expect(rest).toEqual(frames.slice(read))
      const counter = countFrom(position)
      for (const at of rest.slice(0, 7)) counter.pass(at)
      position = counter.position()
    }
  })

  it('repeats no frame and misses none when frames have equal times', () => {
    const same = Array.from({ length: 9 }, () => timeOf(5_000))
    for (let read = 0; read <= 9; read += 1) {
      const counter = countFrom(beginning)
      for (const at of same.slice(0, read)) counter.pass(at)
      expect(readFrom(counter.position(), same)).toHaveLength(9 - read)
    }
  })

  it('misses no frame after the clock was set back, or when the engine has removed the frame of its mark', () => {
    const counter = countFrom(beginning)
    for (const ms of [100_000, 101_500, 103_000, 20_000]) counter.pass(timeOf(ms))
    expect(readFrom(counter.position(), [timeOf(20_000), timeOf(20_500)])).toEqual([timeOf(20_500)])
    for (const ms of [22_000, 24_000]) counter.pass(timeOf(ms))
    expect(readFrom(counter.position(), [timeOf(23_000), timeOf(25_000)])).toEqual([timeOf(23_000), timeOf(25_000)])
    expect(readFrom(unknown, [timeOf(1)])).toEqual([timeOf(1)])
  })
})

test('the engine is asked from the mark on, to the nanosecond, and at the beginning for all output', () => {
  expect(sinceOf([{ at: '2026-01-01T00:00:01.000000123Z', frames: 1 }])).toBe('1767225601.000000123')
  expect([sinceOf(beginning), sinceOf(unknown)]).toEqual([undefined, undefined])
})
