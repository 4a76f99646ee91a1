import { readFile } from 'node:fs/promises'
import { expect, test } from 'vitest'
import { memoryOfProcesses, parseMachineMemory, parseProcessMemory } from '../../../server/src/platform/processes.ts'

const kB = 1024

test('memory that no file backs is used memory: of processes, shared memory, page tables, and swap', () => {
  const text = `MemTotal:        2000 kB
MemFree:          100 kB
MemAvailable:     700 kB
AnonPages:        400 kB
Shmem:             30 kB
PageTables:        20 kB
SwapTotal:       1000 kB
SwapFree:         900 kB
`
  expect(parseMachineMemory(text)).toEqual({ used: 550 * kB, available: 700 * kB, total: 2000 * kB })
  expect(parseMachineMemory('')).toBeNull()
})

const status =
  'VmRSS:\t 9000 kB\nRssAnon:\t 500 kB\nRssFile:\t 8000 kB\nRssShmem:\t 70 kB\nVmPTE:\t 9 kB\nVmSwap:\t 40 kB\n'

test('pages that several processes share are divided among them, and reserved addresses do not count', () => {
  const rollup = 'Rss: 900 kB\nPss: 300 kB\nPss_Anon: 250 kB\nPss_File: 10 kB\nPss_Shmem: 35 kB\nSwapPss: 20 kB\n'
  const spaced = rollup.replaceAll(': ', ':      ')
  expect(parseProcessMemory(spaced, status)).toEqual({ own: (250 + 20 + 9) * kB, mapped: 35 * kB })
})

test.each([
  ['hides it', null],
  ['runs on an old kernel', 'Rss: 900 kB\nPss: 300 kB\n'],
])('a process that %s counts with its full share', (_, rollup) => {
  expect(parseProcessMemory(rollup, status)).toEqual({ own: (500 + 40 + 9) * kB, mapped: 70 * kB })
})

test('a process that has ended uses nothing', () => {
  expect(parseProcessMemory(null, '')).toEqual({ own: 0, mapped: 0 })
})

test('this process is measured far below its reserved addresses', async () => {
  const kept = Buffer.alloc(50_000_000, 1)
  const bytes = await memoryOfProcesses([process.pid])
  expect(bytes).toBeGreaterThan(kept.length)
  const [, reserved] = /^VmSize:\s+(\d+) kB$/m.exec(await readFile('/proc/self/status', 'utf8')) ?? []
  expect(bytes).toBeLessThan((Number(reserved) * kB) / 2)
})
