import { execFileSync } from 'node:child_process'
import { appendFileSync, utimesSync } from 'node:fs'
import { appendFile, mkdir, mkdtemp, rm, stat, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { punchHole } from '../../../server/src/logs/extent.ts'
import { createMasker } from '../../../server/src/logs/masking.ts'
import { escapeControls, findStart, type LogLine, openLog, readLines } from '../../../server/src/logs/reader.ts'
import { createRecorder, type Recorder } from '../../../server/src/logs/recorder.ts'
import { prefix } from '../../harness/temporary.ts'

const mostBytes = 1024 * 1024
const nobody = createMasker([])
const never = new Promise<never>(() => undefined)

let directory: string
let made = 0
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), prefix))
})
afterAll(() => rm(directory, { recursive: true, force: true }))

const newLog = async (text: string | Buffer = ''): Promise<string> => {
  made += 1
  const path = join(directory, `${made}.log`)
  await writeFile(path, text)
  return path
}
const newRecorder = () => createRecorder({ mostBytes })

/** Returns everything from a position on, as repeated reads deliver it. */
async function readAll(recorder: Recorder, path: string, options: { from?: number; masker?: typeof nobody } = {}) {
  const { from = 0, masker = nobody } = options
  const lines: LogLine[] = []
  for (let position = from; ; ) {
    const part = await readLines(path, await recorder.look(path), { from: position, masker, isFinal: true })
    lines.push(...part.lines)
    if (part.next === position) return lines
    position = part.next
  }
}
const texts = (lines: readonly LogLine[]) => lines.map(({ text }) => text)

async function tail(path: string, count: number, since?: number): Promise<string[]> {
  const recorder = newRecorder()
  const start = await findStart(path, await recorder.look(path), { count, since })
  const lines = texts(await readAll(recorder, path, { from: start.position }))
  expect(lines.length).toBe(start.lines)
  return lines
}

describe('the last lines of a log', () => {
  it.each([
    ['', 5, []],
    ['a\nb\nc\n', 2, ['b', 'c']],
    ['a\nb\nc', 2, ['b', 'c']],
    ['a\r\n\r\nb\r\n', 5, ['a', '', 'b']],
    ['\n', 5, ['']],
    ['a\n', 0, []],
  ])('of %j: %i are %j', async (text, count, expected) => {
    expect(await tail(await newLog(text), count)).toEqual(expected)
  })

  it('are empty without a log', async () => {
    expect(await tail(join(directory, 'missing.log'), 5)).toEqual([])
    await mkdir(join(directory, 'folder.log'))
    expect(await tail(join(directory, 'folder.log'), 5)).toEqual([])
  })

  it('are cut at 4 KB, between characters, and count as one at any length', async () => {
    const path = await newLog(`first\n${'x'.repeat(4095)}é${'y'.repeat(300_000)}\nlast\n${'z'.repeat(200_000)}`)
    expect(await tail(path, 4)).toEqual(['first', `${'x'.repeat(4095)}…`, 'last', `${'z'.repeat(4096)}…`])
    expect(await tail(path, 3)).toEqual([`${'x'.repeat(4095)}…`, 'last', `${'z'.repeat(4096)}…`])
  })

  it('come from the end of any text', async () => {
    const anyText = fc.string({ unit: fc.constantFrom('a', 'b', '\n'), maxLength: 30 })
    await fc.assert(
      fc.asyncProperty(anyText, fc.nat({ max: 12 }), async (text, count) => {
        const all = text === '' ? [] : text.replace(/\n$/, '').split('\n')
        expect(await tail(await newLog(text), count)).toEqual(count === 0 ? [] : all.slice(-count))
      }),
      { numRuns: 50 },
    )
  })
})

describe('a reader of a log', () => {
  it('misses nothing and sees no secret, however writes and reads are split', async () => {
    const secret = 'pass word/Zß7'
    const lineSecret = 'first secret line\nsecond secret line'
    const spelled = [
      secret,
      lineSecret,
      encodeURIComponent(secret),
      JSON.stringify(lineSecret),
      Buffer.from(secret).toString('base64'),
      Buffer.from(`ab${lineSecret}`).toString('base64'),
    ]
    const piece = fc.oneof(
      fc.constantFrom(...spelled),
      fc.constantFrom('\n', 'plain ', 'é', 'x'.repeat(5_000), 'y'.repeat(70_000)),
    )
    await fc.assert(
      fc.asyncProperty(
        fc.array(piece, { maxLength: 20 }),
        fc.infiniteStream(fc.nat({ max: 30_000 })),
        async (pieces, cuts) => {
          const bytes = Buffer.from(pieces.join(''))
          const path = await newLog()
          const recorder = newRecorder()
          const masker = createMasker([secret, lineSecret])
          const seen: LogLine[] = []
          let position = 0
          for (let at = 0; at < bytes.length; ) {
            const length = (cuts.next().value ?? 0) + 1
            await appendFile(path, bytes.subarray(at, at + length))
            at += length
            const part = await readLines(path, await recorder.look(path), { from: position, masker, isFinal: false })
            seen.push(...part.lines)
            position = part.next
          }
          seen.push(...(await readAll(recorder, path, { from: position, masker })))
          for (const text of [secret, 'first secret line', 'second secret line', ...spelled.slice(2)]) {
            expect(texts(seen).join('\n')).not.toContain(text)
          }
          const all = bytes.toString('utf8').split('\n')
          if (all.at(-1) === '') all.pop()
          expect(seen.length).toBe(all.length)
          const short = (lines: readonly string[]) => lines.filter((line) => line.length < 1_000 && !line.includes('*'))
          const isPlain = (line: string) => createMasker([secret, lineSecret]).mask(line) === line
          expect(short(texts(seen))).toEqual(short(all.filter(isPlain)))
        },
      ),
      { numRuns: 60 },
    )
  })

  it('sees no part of a secret at a cut line, or at the end of a log’s part', async () => {
    const masker = createMasker(['a secret value of some length'])
    for (const before of [4_090, 64 * 1024 - 10, 64 * 1024 - 4_090]) {
      const path = await newLog(
        `${'x\n'.repeat(before / 2 - 2_000)}${'y'.repeat(4_000)}a secret value of some length\n`,
      )
      expect(texts(await readAll(newRecorder(), path, { masker })).at(-1)).toMatch(/^y+\*\*\*$/)
    }
    const cut = await newLog(`${'y'.repeat(4_090)}a secret value of some length\n`)
    expect(texts(await readAll(newRecorder(), cut, { masker }))).toEqual([`${'y'.repeat(4_090)}***…`])
  })

  it('starts over when the app has emptied its log, and omits what it has already delivered', async () => {
    const recorder = newRecorder()
    const path = await newLog('one\ntwo\n')
    const [one] = await readAll(recorder, path)
    expect(texts(await readAll(recorder, path, { from: one?.end ?? 0 }))).toEqual(['two'])
    await truncate(path)
    await appendFile(path, 'new\n')
    expect(texts(await readAll(recorder, path, { from: 8 }))).toEqual(['new'])
  })

  it('gets the unfinished last line, and the next text on a separate line', async () => {
    const recorder = newRecorder()
    const path = await newLog('it ended in the mid')
    const [half] = await readAll(recorder, path)
    expect(half?.text).toBe('it ended in the mid')
    const log = await openLog(path)
    await log.write('started again\n')
    await log.close()
    expect(texts(await readAll(recorder, path, { from: half?.end ?? 0 }))).toEqual(['started again'])
  })
})

describe('the time of a line', () => {
  const second = 1_000
  const noon = Date.parse('2026-01-01T12:00:00Z')
  /** Writes as if the app had written at that time. */
  const write = (path: string, text: string, at: number) => {
    // In one turn, so that the recorder does not look in between.
    appendFileSync(path, text)
    utimesSync(path, at / 1000, at / 1000)
  }

  it('is the time when the file grew, for a watched log', async () => {
    const recorder = newRecorder()
    const path = await newLog()
    await recorder.record(path, never)
    write(path, 'one\n', noon)
    await recorder.look(path)
    write(path, 'two\nthr', noon + second)
    await recorder.look(path)
    write(path, 'ee\n', noon + 2 * second)
    expect(await readAll(recorder, path)).toMatchObject([
      { text: 'one', at: noon },
      { text: 'two', at: noon + second },
      { text: 'three', at: noon + 2 * second },
    ])
  })

  it('is recorded without a reader', async () => {
    const recorder = newRecorder()
    const path = await newLog()
    const ended = Promise.withResolvers<void>()
    await recorder.record(path, ended.promise)
    write(path, 'one\n', noon)
    const noted = async () => (await stat(path.replace('.log', '.times'))).size
    await vi.waitFor(async () => expect(await noted()).toBe(32), 10_000)
    write(path, 'last\n', noon + second)
    ended.resolve()
    await vi.waitFor(async () => expect(await noted()).toBe(48), 10_000)
    expect((await readAll(newRecorder(), path)).map(({ at }) => at)).toEqual([noon, noon + second])
  })

  it('is unknown for text that was written without a watch, and never decreases', async () => {
    const path = await newLog()
    const first = newRecorder()
    await first.record(path, never)
    write(path, 'seen\n', noon)
    await first.look(path)
    write(path, 'nobody was there\n', noon + second)
    const second_ = newRecorder()
    await second_.record(path, never)
    write(path, 'seen again\n', noon - second)
    expect(await readAll(second_, path)).toMatchObject([
      { text: 'seen', at: noon },
      { text: 'nobody was there', at: null },
      { text: 'seen again', at: noon + second },
    ])
  })

  it('is what `since` refers to', async () => {
    const recorder = newRecorder()
    const path = await newLog()
    await recorder.record(path, never)
    for (const index of [0, 1, 2, 3]) {
      write(path, `line ${index}\nand more`, noon + index * second)
      await recorder.look(path)
    }
    expect(await tail(path, 9, noon - second)).toHaveLength(5)
    expect(await tail(path, 9, noon + 2 * second)).toEqual(['and moreline 2', 'and moreline 3', 'and more'])
    expect(await tail(path, 2, noon + 2 * second)).toEqual(['and moreline 3', 'and more'])
    // Its time is the time of its end, which is still to come.
    expect(await tail(path, 9, noon + 9 * second)).toEqual(['and more'])
    write(path, '\n', noon + 4 * second)
    await recorder.look(path)
    expect(await tail(path, 9, noon + 4 * second)).toEqual(['and more'])
    expect(await tail(path, 9, noon + 9 * second)).toEqual([])
  })
})

describe('a log that grows too large', () => {
  const block = (index: number) =>
    Array.from({ length: 1_000 }, (_, line) => `${index}.${line} ${'x'.repeat(80)}\n`).join('')

  it('stays within its size, keeps its newest lines and every position', async () => {
    const recorder = newRecorder()
    const path = await newLog()
    await recorder.record(path, never)
    let last = 0
    for (let index = 0; index < 40; index += 1) {
      await appendFile(path, block(index))
      last = (await recorder.look(path)).end
      // Blocks of 512 bytes; the file system adds one more at each end.
      expect((await stat(path)).blocks * 512).toBeLessThanOrEqual(mostBytes + 3 * 4096)
    }
    expect(last).toBeGreaterThan(3 * mostBytes)
    const lines = await readAll(recorder, path)
    expect(lines.at(-1)).toMatchObject({ end: last, at: expect.any(Number) })
    expect(lines.at(-1)?.text).toContain('39.999 ')
    expect(lines.length).toBeGreaterThan(4_000)
    const all = Array.from({ length: 40 }, (_, index) => block(index))
      .join('')
      .split('\n')
      .slice(0, -1)
    expect(texts(lines)).toEqual(all.slice(-lines.length))
    expect((await tail(path, 100_000)).length).toBe(lines.length)
  })

  it('also stays small when it grew without a watch, or all at once', async () => {
    const path = await newLog(Buffer.concat(Array.from({ length: 40 }, (_, index) => Buffer.from(block(index)))))
    const lines = await readAll(newRecorder(), path)
    expect(lines.at(-1)?.text).toContain('39.999 ')
    expect((await stat(path)).blocks * 512).toBeLessThanOrEqual(mostBytes)
  })

  it('counts the times of its lines, too', async () => {
    const recorder = createRecorder({ mostBytes: 64 * 1024 })
    const path = await newLog()
    await recorder.record(path, never)
    for (let index = 0; index < 4_500; index += 1) {
      await appendFile(path, '\n')
      await recorder.look(path)
    }
    expect((await stat(path.replace('.log', '.times'))).size).toBeLessThan(64 * 1024)
    const lines = await readAll(recorder, path)
    expect(lines.length).toBeGreaterThan(1_000)
    expect(lines.every(({ at }) => at !== null)).toBe(true)
  })

  it('keeps the last lines, however much a program writes during the trim', async () => {
    const path = await newLog('first\n'.repeat(mostBytes / 4))
    let writes = 3
    const free = async (file: string, bytes: number) => {
      await punchHole(file, bytes)
      writes -= 1
      if (writes >= 0) await appendFile(file, `${'more\n'.repeat(mostBytes)}the end ${writes}\n`)
    }
    const recorder = createRecorder({ mostBytes, free })
    await recorder.look(path)
    expect(texts(await readAll(recorder, path)).slice(-2)).toEqual(['more', 'the end 0'])
    const { blocks } = await stat(path)
    expect(blocks * 512).toBeLessThanOrEqual(2 * mostBytes)
  })

  it('starts over where a part of a file cannot be freed', async () => {
    const recorder = createRecorder({ mostBytes, free: () => Promise.reject(new Error('not supported')) })
    const path = await newLog(Buffer.alloc(2 * mostBytes, 'x\n'))
    expect(await recorder.look(path)).toEqual({ start: 0, end: 0 })
    await appendFile(path, 'new\n')
    expect(texts(await readAll(recorder, path, { from: 99 }))).toEqual(['new'])
  })

  it('never blocks its writer', async () => {
    const recorder = newRecorder()
    const path = await newLog()
    await recorder.record(path, never)
    const log = await openLog(path)
    for (let round = 0; round < 5; round += 1) {
      execFileSync('head', ['-c', '700000', '/dev/zero'], { stdio: ['ignore', log.fd, 'ignore'] })
      await log.write(`\nround ${round}\n`)
      await recorder.look(path)
    }
    await log.close()
    expect(texts(await readAll(recorder, path)).at(-1)).toBe('round 4')
  })
})

describe('control sequences', () => {
  it.each([
    ['\x1b[1;31mred\x1b[0m', '\x1b[1;31mred\x1b[0m'],
    ['\x1b]0;title\x07', '␛]0;title␇'],
    ['\x1b[2Jgone\x1b[H', '␛[2Jgone␛[H'],
    ['10%\r100%', '10%␍100%'],
    ['\x9b2J\x7f\t|', '␛[2J␡\t|'],
  ])('%j is shown as %j', (text, shown) => {
    expect(escapeControls(text)).toBe(shown)
  })

  it('reach readers only as colours', () => {
    fc.assert(
      fc.property(
        fc.string({ unit: fc.constantFrom('\x1b', '[', ']', '0', ';', 'm', 'J', '\x9b', '\x07', 'é') }),
        (text) => {
          // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what must not be there.
          expect(escapeControls(text).replace(/\x1b\[[0-9;:]*m/g, '')).not.toMatch(/[\x00-\x08\x0a-\x1f\x7f-\x9f]/)
        },
      ),
    )
  })
})
