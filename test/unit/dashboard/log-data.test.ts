import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { goesOn, levelOf } from '../../../server/dashboard/src/data/log/log-level.ts'
import { parseLogLine } from '../../../server/dashboard/src/data/log/log-line.ts'
import { continueSearch, type LogFilter, type Search } from '../../../server/dashboard/src/data/log/log-search.ts'
import { cellsOf, layoutOf } from '../../../server/dashboard/src/pages/project/log/row-layout.ts'

describe('a line of the log', () => {
  it('is parsed from the data of an event, and the position after the line is its key', () => {
    const at = '2026-11-21T05:32:03.120Z'
    const data = JSON.stringify({ at, stream: 'runtime', text: 'GET /' })
    expect(parseLogLine(data, '120-4711')).toMatchObject({ at, stream: 'runtime', text: 'GET /', key: 'runtime-4711' })
    expect(parseLogLine('{"at":null,"stream":"build","text":""}', '120-0')).toMatchObject({
      at: null,
      stream: 'build',
      text: '',
      key: 'build-120',
    })
  })

  it('has a key with its deployment in the log of an app', () => {
    const data = JSON.stringify({ deployment_id: 'dep_2', stream: 'runtime', text: 'GET /' })
    expect(parseLogLine(data, 'dep_1:120-4711.dep_2:80-7')).toMatchObject({
      deploymentId: 'dep_2',
      key: 'dep_2-runtime-7',
    })
  })

  it('has a key with the instance that printed it, except for the first instance', () => {
    const keyOf = (process: string) =>
      parseLogLine(JSON.stringify({ deployment_id: 'dep_2', stream: 'runtime', process, text: '' }), id).key
    const id = 'dep_1:1-2:worker:2:3.dep_2:80-7:work:2:4:worker:2:5:web:12:6'
    expect(['web.1', 'worker.2', 'web.12', 'work.2', 'none.1'].map(keyOf)).toEqual([
      'dep_2-runtime-7',
      'dep_2-worker.2-5',
      'dep_2-web.12-6',
      'dep_2-work.2-4',
      null,
    ])
  })

  it('is the data itself when the data has another format', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.json()), (data) => {
        expect(parseLogLine(data)).toMatchObject({ at: null, stream: 'build', text: data, key: null })
      }),
    )
  })

  it.each([
    ['error', '{"level":50,"time":1,"msg":"no"}'],
    ['error', '{"time":"…","level":"error"}'],
    ['error', 'time=2026-11-21T05:32:03Z level=error msg="no"'],
    ['error', '2026-11-21 05:32:03,120 [main] ERROR com.acme.Shop - no'],
    ['error', '[error] no such file'],
    ['error', 'npm error code E404'],
    ['error', 'npm ERR! code E404'],
    ['error', '\u001b[31merror\u001b[0m: no'],
    ['error', 'TypeError: x is not a function'],
    ['error', 'panic: runtime error'],
    ['error', 'Traceback (most recent call last):'],
    ['warning', 'npm warn deprecated x@1'],
    ['warning', '(node:12) Warning: x'],
    ['warning', '{"level":40}'],
    ['warning', '12:00:01 WARN slow'],
    ['info', '{"level":30,"msg":"an error was corrected"}'],
    ['info', '12:00:01 INFO no error'],
    ['info', 'GET /errors 200'],
    ['info', '0 errors, 0 warnings'],
    ['info', 'asked for /error-log'],
    ['info', ''],
  ])('is of level %s: %s', (level, text) => expect(levelOf(text)).toBe(level))

  it('belongs to the line before it when it is a call of a trace', () => {
    expect(['    at main (server.js:1:2)', 'Caused by: x'].map(goesOn)).toEqual([true, true])
    expect(['', 'asked for /', '  '].map(goesOn)).toEqual([false, false, false])
  })
})

describe('the search in a log', () => {
  const line = (text: string) => parseLogLine(JSON.stringify({ at: null, stream: 'runtime', text }))

  it('finds the same matches in batches of any size, while lines are added and dropped', () => {
    const step = fc.record({ add: fc.nat(20), drop: fc.nat(10), max: fc.integer({ min: 1, max: 7 }) })
    fc.assert(
      fc.property(fc.array(step), (steps) => {
        let search: Search = { filter: { text: 'b' }, next: 0, matches: [] }
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

  it('finds lines by stream, by minimal level, and by text across colours', () => {
    const lines = [
      { stream: 'build', text: 'npm error a' },
      { stream: 'runtime', text: 'WARN a' },
      { stream: 'runtime', text: 'b\u001b[31mar\u001b[0m' },
    ].map((each) => parseLogLine(JSON.stringify(each)))
    const numbers = (filter: LogFilter) =>
      continueSearch({ filter, next: 0, matches: [] }, { first: 0, lines }, 10).matches.map(({ number }) => number)
    expect(numbers({ text: '', stream: 'build' })).toEqual([0])
    expect(numbers({ text: '', level: 'warning' })).toEqual([0, 1])
    expect(numbers({ text: '', level: 'error', stream: 'runtime' })).toEqual([])
    expect(numbers({ text: 'bar' })).toEqual([2])
  })
})

describe('the rows of wrapped lines', () => {
  it('contain all characters of their line, and lead back to it', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(100)), fc.integer({ min: 1, max: 30 }), (lengths, columns) => {
        const layout = layoutOf(lengths.length, (index) => 'x'.repeat(lengths[index] ?? 0), columns)
        const rows = lengths.map((length) => Math.max(1, Math.ceil(length / columns)))
        expect(layout.rows).toBe(rows.reduce((sum, each) => sum + each, 0))
        const lines = rows.flatMap((count, line) => Array.from({ length: count }, () => line))
        expect(lines.map((_, row) => layout.lineAt(row))).toEqual(lines)
        for (const line of lengths.keys()) expect(layout.row(line)).toBe(lines.indexOf(line))
      }),
    )
  })

  it('have room for wide characters and tabs, and no room for colour codes', () => {
    expect(cellsOf('日本')).toBe(4)
    expect(cellsOf('a\tb')).toBe(9)
    expect(cellsOf('\u001b[31mred\u001b[0m')).toBe(3)
  })
})
