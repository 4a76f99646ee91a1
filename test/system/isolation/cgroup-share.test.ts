import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, test, vi } from 'vitest'
import {
  type CpuSample,
  leastCores,
  type Share,
  shareAfter,
  shareFiles,
  withoutLast,
} from '../../../server/src/platform/cgroups/cpu-share.ts'
import { type Hierarchy, openCgroups, openYielding } from '../../../server/src/platform/cgroups.ts'
import { silentLogger } from '../../harness/platform/fixtures/silent-logger.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

const limits = { memoryBytes: 512_000_000, cpus: 0.5, processes: 512 }
const seconds = 2

/** The cores that groups would get until the next check with each share. */
const machine = fc.record({
  idle: fc.double({ min: 0, max: 8, noNaN: true }),
  low: fc.double({ min: 0, max: 8, noNaN: true }),
})

/** Simulates the rule, and returns the share and the groups' cores in each period between two checks. */
function play(times: readonly Readonly<Record<Share, number>>[]): { share: Share; cores: number }[] {
  const played: { share: Share; cores: number }[] = []
  let last: CpuSample | null = null
  let now: CpuSample = { at: 1_000, used: 50 }
  for (const time of times) {
    const share = shareAfter(last, now)
    const cores = time[share]
    played.push({ share, cores })
    last = now
    now = { at: now.at + seconds, used: (now.used ?? 0) + cores * seconds }
  }
  return played
}

describe('the share of groups that give way', () => {
  test('is the rest of the CPU time, unless that was almost nothing: then it is low', () => {
    fc.assert(
      fc.property(fc.array(machine, { minLength: 1, maxLength: 50 }), (times) => {
        const played = play(times)
        expect(played[0]?.share).toBe('idle')
        for (const [index, { share }] of played.slice(1).entries()) {
          const before = played[index]?.cores ?? 0
          // Sums of fractions are not exact.
          if (Math.abs(before - leastCores) > 1e-6) expect(share).toBe(before < leastCores ? 'low' : 'idle')
        }
      }),
    )
  })

  test('starves no build: in one of two consecutive periods, it has had its part or the low share', () => {
    fc.assert(
      fc.property(fc.array(machine, { minLength: 2, maxLength: 50 }), (times) => {
        const isHelped = play(times).map(({ share, cores }) => share === 'low' || cores >= leastCores - 1e-6)
        for (const [index, one] of isHelped.slice(1).entries()) expect(one || isHelped[index]).toBe(true)
      }),
    )
  })

  test('stays low where no measurement of the groups exists', () => {
    expect(shareAfter(null, { at: 1, used: null })).toBe('low')
    expect(shareAfter({ at: 1, used: null }, { at: 3, used: null })).toBe('low')
    expect(shareAfter({ at: 1, used: 5 }, { at: 3, used: null })).toBe('low')
  })

  test('is a file of each version; the kernel sets the weight when the group is no longer idle', () => {
    expect(shareFiles(1, 'low').map(({ file, value }) => [file, value])).toEqual([
      ['cpu.idle', '0'],
      ['cpu.shares', '256'],
    ])
    expect(shareFiles(2, 'idle').map(({ file, value }) => [file, value])).toEqual([
      ['cpu.idle', '1'],
      ['cpu.weight', '25'],
    ])
  })
})

const byNumber = (one: number, other: number) => one - other

/** Returns cores as the kernel writes them, two or more in a row as a range. */
function listOf(cores: readonly number[]): string {
  const ranges: [number, number][] = []
  for (const core of cores) {
    const last = ranges.at(-1)
    if (last?.[1] === core - 1) last[1] = core
    else ranges.push([core, core])
  }
  return ranges.map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`)).join(',')
}

describe('a folder of groups that give way', () => {
  const open = (hierarchy: Hierarchy, isOwn = false) =>
    openYielding({ hierarchy, isOwn }, 'server', { leavesCore: () => false, logger: silentLogger })
  const valueIn = (...path: string[]) => readFile(join(...path), 'utf8').catch(() => null)

  async function version1() {
    const directory = await temporaryDirectory()
    const [cpu, cpuTime] = ['cpu', 'cpuacct'].map((name) => join(directory.path, name)) as [string, string]
    for (const each of [cpu, cpuTime]) await mkdir(each)
    return { directory, cpu, cpuTime, hierarchy: { version: 1, folders: { cpu }, cpuTime } as const }
  }

  test('has the share, in place of its groups, while one of them runs', async () => {
    const { directory, cpu, cpuTime, hierarchy } = await version1()
    await using _ = directory
    const yielding = await open(hierarchy)
    const groups = await openCgroups(yielding?.hierarchy ?? null, 'builds', yielding)
    expect(await groups?.make('a', limits)).toEqual([
      join(cpu, 'server', 'builds', 'a', 'cgroup.procs'),
      // All groups are counted together.
      join(cpuTime, 'server', 'cgroup.procs'),
    ])
    await writeFile(join(cpuTime, 'server', 'cpuacct.usage'), '5000000000\n')
    await expect.poll(() => valueIn(cpu, 'server', 'cpu.shares')).toBe('256')
    expect(await valueIn(cpu, 'server', 'builds', 'a', 'cpu.idle')).toBeNull()
    await yielding?.close()
  })

  test('in a separate place gives way as a whole', async () => {
    const { directory, cpu, hierarchy } = await version1()
    await using _ = directory
    const yielding = await open(hierarchy, true)
    const groups = await openCgroups(yielding?.hierarchy ?? null, 'builds', yielding)
    await groups?.make('a', limits)
    await expect.poll(() => valueIn(cpu, 'cpu.shares')).toBe('256')
    expect(await valueIn(cpu, 'server', 'cpu.shares')).toBeNull()
    await yielding?.close()
  })

  test('is idle in version 2, which counts its time in the folder itself', async () => {
    await using directory = await temporaryDirectory()
    const { path } = directory
    const folders = { memory: path, cpu: path, pids: path, freezer: path }
    await writeFile(join(path, 'cgroup.controllers'), 'cpu memory pids\n')
    const yielding = await open({ version: 2, folders })
    // The kernel writes these.
    await writeFile(join(path, 'server', 'cgroup.controllers'), 'cpu memory pids\n')
    await writeFile(join(path, 'server', 'cpu.stat'), 'usage_usec 5000\nuser_usec 5000\n')
    const groups = await openCgroups(yielding?.hierarchy ?? null, 'builds', yielding)
    expect(await groups?.make('a', limits)).toEqual([join(path, 'server', 'builds', 'a', 'cgroup.procs')])
    await expect.poll(() => valueIn(path, 'server', 'cpu.idle')).toBe('1')
    await yielding?.close()
  })

  test('has all cores, or all but one, with an engine’s subfolders, in version 1', async () => {
    const { directory, hierarchy } = await version1()
    await using _ = directory
    const cores = join(directory.path, 'cpuset')
    await mkdir(cores)
    await writeFile(join(cores, 'cpuset.cpus'), '0-3\n')
    await writeFile(join(cores, 'cpuset.mems'), '0\n')
    let leavesCore = true
    const place = { hierarchy: { ...hierarchy, cores }, isOwn: false }
    const yielding = await openYielding(place, 'server', { leavesCore: () => leavesCore, logger: silentLogger })
    expect(yielding?.join).toContain(join(cores, 'server', 'cgroup.procs'))
    expect(await valueIn(cores, 'server', 'cpuset.mems')).toBe('0')
    const step = join(cores, 'server', 'engine', 'step')
    await mkdir(step, { recursive: true })
    const groups = await openCgroups(yielding?.hierarchy ?? null, 'builds', yielding)
    await groups?.make('a', limits)
    for (const folder of [join(cores, 'server'), step]) {
      await expect.poll(() => valueIn(folder, 'cpuset.cpus')).toBe('0-2')
    }
    leavesCore = false
    for (const folder of [join(cores, 'server'), step]) {
      await vi.waitFor(async () => expect(await valueIn(folder, 'cpuset.cpus')).toBe('0-3'), 30_000)
    }
    await yielding?.close()
  })

  test('has all cores, or all but one, only in its own folder, in version 2', async () => {
    await using directory = await temporaryDirectory()
    const { path } = directory
    const folders = { memory: path, cpu: path, pids: path, freezer: path }
    await writeFile(join(path, 'cgroup.controllers'), 'cpuset cpu memory pids\n')
    await writeFile(join(path, 'cpuset.cpus.effective'), '0-1\n')
    let leavesCore = true
    const place = { hierarchy: { version: 2 as const, folders }, isOwn: false }
    const yielding = await openYielding(place, 'server', { leavesCore: () => leavesCore, logger: silentLogger })
    expect(await valueIn(path, 'cgroup.subtree_control')).toBe('+cpuset')
    // The kernel writes this.
    await writeFile(join(path, 'server', 'cgroup.controllers'), 'cpu memory pids\n')
    await (await openCgroups(yielding?.hierarchy ?? null, 'builds', yielding))?.make('a', limits)
    await expect.poll(() => valueIn(path, 'server', 'cpuset.cpus')).toBe('0')
    leavesCore = false
    await vi.waitFor(async () => expect(await valueIn(path, 'server', 'cpuset.cpus')).toBe('0-1'), 30_000)
    await yielding?.close()
  })

  test('leaves the last core of a list free, if there is another', () => {
    const lists = fc
      .uniqueArray(fc.integer({ min: 0, max: 200 }), { minLength: 1 })
      .map((each) => each.toSorted(byNumber))
    fc.assert(
      fc.property(lists, (cores) => {
        expect(withoutLast(listOf(cores))).toBe(listOf(cores.length === 1 ? cores : cores.slice(0, -1)))
      }),
    )
  })

  test('is counted where version 1 has the CPU and its time in one folder', async () => {
    await using directory = await temporaryDirectory()
    const { path } = directory
    const yielding = await open({ version: 1, folders: { cpu: path }, cpuTime: path })
    expect(yielding?.join).toEqual([])
    await writeFile(join(path, 'server', 'cpuacct.usage'), '5000000000\n')
    await (await openCgroups(yielding?.hierarchy ?? null, 'builds', yielding))?.make('a', limits)
    await expect.poll(() => valueIn(path, 'server', 'cpu.idle')).toBe('1')
    await yielding?.close()
  })

  test('does not exist where groups have no place', async () => {
    expect(await openYielding(null, 'server', { leavesCore: () => false, logger: silentLogger })).toBeNull()
    expect(await open({ version: 1, folders: {} })).toBeNull()
  })
})
