import { ApiError } from '@fairlead/server/client'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { type FollowOptions, followLog } from '../../../server/dashboard/src/data/log/follow-log.ts'

type Body = ReadableStream<Uint8Array<ArrayBuffer>>

/** A body that gives these pieces and then closes. */
const bodyOf = (...pieces: Uint8Array[]): Body => ReadableStream.from(pieces) as Body
const textBody = (text: string): Body => bodyOf(new TextEncoder().encode(text))

/** Follows a log whose connections are these bodies or errors, in this order. */
function follow(connections: readonly (Body | Error)[], signal = new AbortController().signal) {
  const remaining = [...connections]
  const lines: string[] = []
  const lastEventIds: string[] = []
  const errors: unknown[] = []
  const connect: FollowOptions['connect'] = async (lastEventId) => {
    lastEventIds.push(lastEventId)
    const next = remaining.shift()
    if (next === undefined) throw new Error('one connection too many')
    if (next instanceof Error) throw next
    return { body: next }
  }
  const done = followLog({
    connect,
    signal,
    onLine: ({ text }) => lines.push(text),
    onError: (error) => errors.push(error),
  })
  return { done, lines, lastEventIds, errors }
}

describe('a followed log', () => {
  const end = 'event: end\ndata: {}\n\n'

  it('has the same lines however its bytes are split', async () => {
    const sent = `: hello\n\nid: 1-0\ndata: {"text":"ä"}\n\nid: 2-0\ndata: a\ndata: b\n\n${end}`
    const bytes = new TextEncoder().encode(sent)
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(bytes.length)), async (cuts) => {
        const ends = [...cuts.sort((a, b) => a - b), bytes.length]
        const pieces = ends.map((end, index) => bytes.slice(ends[index - 1] ?? 0, end))
        const { done, lines, lastEventIds, errors } = follow([bodyOf(...pieces)])
        await done
        expect({ lines, lastEventIds, errors }).toEqual({ lines: ['ä', 'a\nb'], lastEventIds: [''], errors: [] })
      }),
    )
  })

  it('is closed by the reader at the end event', async () => {
    const canceled = Promise.withResolvers<void>()
    const body: Body = new ReadableStream({
      start: (controller) => controller.enqueue(new TextEncoder().encode(`data: one\n\n${end}data: two\n\n`)),
      cancel: () => canceled.resolve(),
    })
    const { done, lines } = follow([body])
    await done
    await canceled.promise
    expect(lines).toEqual(['one'])
  })

  describe('over lost connections', () => {
    beforeEach(() => {
      vi.useFakeTimers()
    })
    afterEach(() => {
      vi.useRealTimers()
    })

    it('resumes after its last line', async () => {
      const lost = new TypeError('the network is gone')
      const unavailable = new ApiError('server_error', 'try again', {}, 'request-1')
      const { done, lines, lastEventIds, errors } = follow([
        textBody('id: 1-0\ndata: one\n\ndata: without id\n\nid: 2-0\ndata: incomplete'),
        lost,
        unavailable,
        textBody(`id: 2-0\ndata: two\n\n`),
        textBody(end),
      ])
      await vi.advanceTimersByTimeAsync(60_000)
      await done
      expect(lines).toEqual(['one', 'without id', 'two'])
      expect(lastEventIds).toEqual(['', '1-0', '1-0', '1-0', '2-0'])
      expect(errors).toEqual([lost, unavailable])
    })

    it('is not requested again after a 4xx response', async () => {
      const gone = new ApiError('not_found', 'no such deployment', {}, 'request-1')
      const { done, lastEventIds, errors } = follow([gone])
      await expect(done).rejects.toBe(gone)
      await vi.advanceTimersByTimeAsync(60_000)
      expect(lastEventIds).toEqual([''])
      expect(errors).toEqual([gone])
    })

    it('is not requested again after an abort', async () => {
      const controller = new AbortController()
      const { done, lastEventIds } = follow([textBody('data: one\n\n')], controller.signal)
      const ended = expect(done).rejects.toThrow('left the page')
      await vi.advanceTimersByTimeAsync(1_000)
      controller.abort(new Error('left the page'))
      await vi.advanceTimersByTimeAsync(60_000)
      await ended
      expect(lastEventIds).toEqual([''])
    })
  })
})
