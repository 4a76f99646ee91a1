import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parseDotenv } from '../../server/dashboard/src/data/dotenv.ts'
import { readEvents } from '../../server/dashboard/src/data/event-stream.ts'
import { lineOf } from '../../server/dashboard/src/data/log-line.ts'

describe('a line of the log', () => {
  it('is read from what the server sends', () => {
    const at = '2026-11-21T05:32:03.120Z'
    expect(lineOf(JSON.stringify({ at, stream: 'runtime', text: 'GET /' }))).toEqual({
      at,
      stream: 'runtime',
      text: 'GET /',
    })
    expect(lineOf('{"at":null,"stream":"build","text":""}')).toEqual({ at: null, stream: 'build', text: '' })
  })

  it('is shown as it is when it is no such message', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.json()), (data) => {
        expect(lineOf(data)).toEqual({ at: null, stream: 'build', text: data })
      }),
    )
  })
})

describe('a dotenv file', () => {
  it('gives its variables: quotes, escapes, comments, exports', () => {
    const text = `# a comment
PLAIN=some text # why
export LEVEL=3
SINGLE='as it is \\n #'
DOUBLE="two\\nlines \\"quoted\\""
SPACED = yes
EMPTY=
no assignment
LEVEL=4`
    expect(Object.fromEntries(parseDotenv(text).map(({ name, value }) => [name, value]))).toEqual({
      PLAIN: 'some text',
      LEVEL: '4',
      SINGLE: 'as it is \\n #',
      DOUBLE: 'two\nlines "quoted"',
      SPACED: 'yes',
      EMPTY: '',
    })
  })

  it('keeps every value that is written in double quotes', () => {
    const written = (value: string) =>
      `"${value.replace(/[\\"]/g, '\\$&').replaceAll('\n', '\\n').replaceAll('\r', '\\r')}"`
    fc.assert(
      fc.property(fc.string(), fc.string(), (one, two) => {
        expect(parseDotenv(`ONE=${written(one)}\nTWO=${written(two)}`)).toEqual([
          { name: 'ONE', value: one },
          { name: 'TWO', value: two },
        ])
      }),
    )
  })
})

describe('a stream of events', () => {
  it('is read however it is cut into pieces', async () => {
    const sent = ': hello\n\nid: 1-0\ndata: {"text":"ä"}\n\nid: 2-0\ndata: a\ndata: b\n\nevent: end\ndata: {}\n\n'
    const bytes = new TextEncoder().encode(sent)
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(bytes.length)), async (cuts) => {
        const ends = [...cuts.sort((a, b) => a - b), bytes.length]
        const pieces = ends.map((end, index) => bytes.slice(ends[index - 1] ?? 0, end))
        const read: unknown[] = []
        for await (const event of readEvents(ReadableStream.from(pieces) as ReadableStream<Uint8Array<ArrayBuffer>>)) {
          read.push(event)
        }
        expect(read).toEqual([
          { event: 'message', data: '{"text":"ä"}', id: '1-0' },
          { event: 'message', data: 'a\nb', id: '2-0' },
          { event: 'end', data: '{}', id: '2-0' },
        ])
      }),
    )
  })
})
