import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFile, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { createLogStore, type LogName } from '../../../server/src/logs/log-store.ts'
import { createMasker } from '../../../server/src/logs/masking.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

const log: LogName = { appId: 'app_1', deploymentId: 'dep_1', stream: 'runtime' }
const masker = createMasker([])
const program = fileURLToPath(new URL('./fixtures/recording-server.ts', import.meta.url))

/** Returns the ends of the marks of a log. */
async function markEnds(directory: string): Promise<number[]> {
  const times = await readFile(join(directory, 'app_1', 'dep_1', 'runtime.times'))
  return Array.from({ length: times.length / 16 }, (_, at) => times.readDoubleLE(at * 16))
}

it('one process follows a log while another records it and frees its older half', async () => {
  await using directory = await temporaryDirectory()
  const store = createLogStore({ directory: directory.path })
  const writer = spawn(process.execPath, [program, directory.path, String(50e6)], { stdio: 'inherit' })
  const exited = once(writer, 'exit')

  let [from, previous, count] = [0, -1, 0]
  for (let text = ''; text !== 'the end'; ) {
    const { lines, next } = await store.read(log, { from, masker, isFinal: false })
    for (const line of lines) {
      text = line.text
      if (text === 'the end') break
      const number = Number(/^(\d+) x{1000}$/.exec(text)?.[1] ?? Number.NaN)
      // The first line after a freed part may have lost its beginning.
      if (Number.isNaN(number)) expect(text).toMatch(/^\d* ?x*$/)
      else {
        expect(number).toBeGreaterThan(previous)
        previous = number
        count += 1
      }
    }
    if (next <= from) await new Promise((done) => setTimeout(done, 5))
    from = next
  }
  expect((await exited)[0]).toBe(0)
  expect(count).toBeGreaterThan(1000)
  const { position, end } = await store.find(log, { lines: 2 })
  const { lines } = await store.read(log, { from: position, masker, isFinal: true })
  expect(lines.map(({ text }) => text.slice(-7))).toEqual(['xxxxxxx', 'the end'])
  expect(lines.at(-1)?.end).toBe(end)
  const ends = await markEnds(directory.path)
  expect(ends).toEqual([...new Set(ends)].sort((a, b) => a - b))
})

it('unrecorded lines have a time, are found by it, and are recorded only by the recorder', async () => {
  await using directory = await temporaryDirectory()
  const [recording, reading] = [1, 2].map(() => createLogStore({ directory: directory.path })) as [
    ReturnType<typeof createLogStore>,
    ReturnType<typeof createLogStore>,
  ]
  const output = await recording.open(log)
  await output.write('before\n')
  await recording.flush(log)
  const before = await markEnds(directory.path)
  await output.close()
  const begun = Date.now() - 1000
  await appendFile(join(directory.path, 'app_1', 'dep_1', 'runtime.log'), 'new\n')
  const { lines } = await reading.read(log, { from: 0, masker, isFinal: false })
  expect(lines.map(({ text }) => text)).toEqual(['before', 'new'])
  expect(await reading.find(log, { lines: 10, since: begun })).toMatchObject({ end: 11 })
  expect((await reading.find(log, { lines: 10, since: Date.now() + 60_000 })).lines).toBe(0)
  expect(await markEnds(directory.path)).toEqual(before)
  await recording.flush(log)
  expect(await markEnds(directory.path)).toEqual([...before, 11])
})
