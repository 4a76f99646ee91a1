import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { readEvents } from '../../server/dashboard/src/data/log/follow-log.ts'
import { parseLogLine } from '../../server/dashboard/src/data/log/log-line.ts'
import { type Search, continueSearch } from '../../server/dashboard/src/data/log/log-search.ts'
import { browserName } from '../../server/dashboard/src/data/user-agent.ts'
import { parseDotenv } from '../../server/dashboard/src/data/variables/dotenv.ts'
import {
  unchangedRows,
  variablesBody,
  withPasted,
  withValue,
} from '../../server/dashboard/src/data/variables/variable-rows.ts'

describe('a line of the log', () => {
  it('is read from what the server sends', () => {
    const at = '2026-11-21T05:32:03.120Z'
    expect(parseLogLine(JSON.stringify({ at, stream: 'runtime', text: 'GET /' }))).toEqual({
      at,
      stream: 'runtime',
      text: 'GET /',
    })
    expect(parseLogLine('{"at":null,"stream":"build","text":""}')).toEqual({ at: null, stream: 'build', text: '' })
  })

  it('is shown as it is when it is no such message', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.json()), (data) => {
        expect(parseLogLine(data)).toEqual({ at: null, stream: 'build', text: data })
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

describe('the search in a log', () => {
  const line = (text: string) => ({ at: null, stream: 'runtime', text }) as const

  it('finds the same in whatever pieces it looks, as the log grows and forgets', () => {
    const step = fc.record({ grow: fc.nat(20), forget: fc.nat(10), most: fc.integer({ min: 1, max: 7 }) })
    fc.assert(
      fc.property(fc.array(step), (steps) => {
        let search: Search = { text: 'b', next: 0, hits: [] }
        const all: string[] = []
        let first = 0
        const held = () => ({ first, lines: all.slice(first).map(line) })
        for (const { grow, forget, most } of steps) {
          for (let n = 0; n < grow; n += 1) all.push(['a', 'B', 'ab', ''][all.length % 4] ?? '')
          first = Math.min(all.length, first + forget)
          search = continueSearch(search, held(), most)
        }
        while (search.next < all.length) search = continueSearch(search, held(), 3)
        search = continueSearch(search, held(), 1)
        expect(search.hits.map(({ number }) => number)).toEqual(
          [...all.keys()].filter((number) => number >= first && all[number]?.toLowerCase().includes('b')),
        )
      }),
    )
  })
})

describe('the variables of a further release', () => {
  it('are kept unless a value is typed, pasted, or the row goes', () => {
    const [kept, typed, , pasted] = unchangedRows(['KEPT', 'TYPED', 'GONE', 'PASTED'])
    if (kept === undefined || typed === undefined || pasted === undefined) throw new Error('there are no rows')
    const added = { name: ' ADDED ', value: '', known: false }
    const rows = withPasted(
      [kept, withValue(typed, 'new'), pasted, added, { name: '', value: 'lost', known: false }],
      [
        { name: 'PASTED', value: '' },
        { name: 'FRESH', value: '1' },
      ],
    )
    expect(variablesBody(rows)).toEqual({
      env_vars: { TYPED: 'new', PASTED: '', ADDED: '', FRESH: '1' },
      keep_env_vars: ['KEPT'],
    })
  })

  it('are unchanged again when what was typed is deleted', () => {
    const [row] = unchangedRows(['A'])
    if (row === undefined) throw new Error('there is no row')
    expect(withValue(withValue(row, 'x'), '')).toEqual(row)
    expect(withValue({ ...row, known: false }, '')).toEqual({ ...row, value: '', known: false })
  })
})

describe('a browser', () => {
  const webkit = 'AppleWebKit/537.36 (KHTML, like Gecko)'
  const apple = 'AppleWebKit/605.1.15 (KHTML, like Gecko)'
  it.each([
    ['Firefox on Linux', 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0'],
    ['Firefox on Android', 'Mozilla/5.0 (Android 15; Mobile; rv:140.0) Gecko/140.0 Firefox/140.0'],
    [
      'Firefox on iPhone',
      `Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) ${apple} FxiOS/140.0 Mobile/15E148 Safari/605.1.15`,
    ],
    ['Chrome on Windows', `Mozilla/5.0 (Windows NT 10.0; Win64; x64) ${webkit} Chrome/141.0.0.0 Safari/537.36`],
    ['Chrome on macOS', `Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) ${webkit} Chrome/141.0.0.0 Safari/537.36`],
    ['Chrome on Android', `Mozilla/5.0 (Linux; Android 10; K) ${webkit} Chrome/141.0.0.0 Mobile Safari/537.36`],
    [
      'Chrome on iPad',
      `Mozilla/5.0 (iPad; CPU OS 18_5 like Mac OS X) ${apple} CriOS/141.0.0.0 Mobile/15E148 Safari/604.1`,
    ],
    ['Chrome on ChromeOS', `Mozilla/5.0 (X11; CrOS x86_64 14541.0.0) ${webkit} Chrome/141.0.0.0 Safari/537.36`],
    ['Chrome on Linux', `Mozilla/5.0 (X11; Linux x86_64) ${webkit} HeadlessChrome/141.0.0.0 Safari/537.36`],
    [
      'Edge on Windows',
      `Mozilla/5.0 (Windows NT 10.0; Win64; x64) ${webkit} Chrome/141.0.0.0 Safari/537.36 Edg/141.0.0.0`,
    ],
    ['Opera on Linux', `Mozilla/5.0 (X11; Linux x86_64) ${webkit} Chrome/141.0.0.0 Safari/537.36 OPR/122.0.0.0`],
    [
      'Samsung Internet on Android',
      `Mozilla/5.0 (Linux; Android 10; K) ${webkit} SamsungBrowser/28.0 Chrome/130.0.0.0 Mobile Safari/537.36`,
    ],
    ['Safari on macOS', `Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) ${apple} Version/18.5 Safari/605.1.15`],
    [
      'Safari on iPhone',
      `Mozilla/5.0 (iPhone; CPU iPhone OS 18_5 like Mac OS X) ${apple} Version/18.5 Mobile/15E148 Safari/604.1`,
    ],
    ['Unknown on Linux', 'Mozilla/5.0 (X11; Linux x86_64)'],
    ['curl', 'curl/8.14.1'],
    ['node', 'node'],
    ['Unknown', '<script>'],
    ['Unknown', ''],
    ['Unknown', null],
  ])('is called %s', (name, userAgent) => {
    expect(browserName(userAgent)).toBe(name)
  })
})
