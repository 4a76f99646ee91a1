import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parseLogLine } from '../../server/dashboard/src/data/log/log-line.ts'
import { continueSearch, type Search } from '../../server/dashboard/src/data/log/log-search.ts'
import { browserName } from '../../server/dashboard/src/data/user-agent.ts'
import { unchangedRows, variablesBody, withPasted, withValue } from '../../server/dashboard/src/data/variable-rows.ts'

describe('a line of the log', () => {
  it('is parsed from the data of an event', () => {
    const at = '2026-11-21T05:32:03.120Z'
    expect(parseLogLine(JSON.stringify({ at, stream: 'runtime', text: 'GET /' }))).toEqual({
      at,
      stream: 'runtime',
      text: 'GET /',
    })
    expect(parseLogLine('{"at":null,"stream":"build","text":""}')).toEqual({ at: null, stream: 'build', text: '' })
  })

  it('is the data itself when that has another format', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.json()), (data) => {
        expect(parseLogLine(data)).toEqual({ at: null, stream: 'build', text: data })
      }),
    )
  })
})

describe('the search in a log', () => {
  const line = (text: string) => ({ at: null, stream: 'runtime', text }) as const

  it('finds the same matches in batches of any size, while lines are added and dropped', () => {
    const step = fc.record({ add: fc.nat(20), drop: fc.nat(10), max: fc.integer({ min: 1, max: 7 }) })
    fc.assert(
      fc.property(fc.array(step), (steps) => {
        let search: Search = { text: 'b', next: 0, matches: [] }
        const all: string[] = []
        let first = 0
        const held = () => ({ first, lines: all.slice(first).map(line) })
        for (const { add, drop, max } of steps) {
          for (let n = 0; n < add; n += 1) all.push(['a', 'B', 'ab', ''][all.length % 4] ?? '')
          first = Math.min(all.length, first + drop)
          search = continueSearch(search, held(), max)
        }
        while (search.next < all.length) search = continueSearch(search, held(), 3)
        search = continueSearch(search, held(), 1)
        expect(search.matches.map(({ number }) => number)).toEqual(
          [...all.keys()].filter((number) => number >= first && all[number]?.toLowerCase().includes('b')),
        )
      }),
    )
  })
})

describe('the variables of a new release', () => {
  it('are kept unless a value is typed or pasted, or the row is removed', () => {
    const [kept, typed, , pasted] = unchangedRows(['KEPT', 'TYPED', 'GONE', 'PASTED'])
    if (kept === undefined || typed === undefined || pasted === undefined) throw new Error('there are no rows')
    const added = { name: ' ADDED ', value: '', existing: false }
    const rows = withPasted(
      [kept, withValue(typed, 'new'), pasted, added, { name: '', value: 'lost', existing: false }],
      { PASTED: '', FRESH: '1' },
    )
    expect(variablesBody(rows)).toEqual({
      env_vars: { TYPED: 'new', PASTED: '', ADDED: '', FRESH: '1' },
      keep_env_vars: ['KEPT'],
    })
  })

  it('are unchanged again when a typed value is deleted', () => {
    const [row] = unchangedRows(['A'])
    if (row === undefined) throw new Error('there is no row')
    expect(withValue(withValue(row, 'x'), '')).toEqual(row)
    expect(withValue({ ...row, existing: false }, '')).toEqual({ ...row, value: '', existing: false })
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
