import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import {
  counterFiles,
  counterIn,
  limitFiles,
  openCgroups,
  parseHierarchy,
  unitOf,
  usableControllers,
} from '../../../server/src/platform/cgroups.ts'
import {
  findHierarchy,
  groupName,
  unitOfGroups,
  yieldingName,
} from '../../../server/src/runtimes/process/confinement/groups.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

const limits = { memoryBytes: 512_000_000, cpus: 0.5, processes: 512 }
const lines = (...each: string[]): string => `${each.join('\n')}\n`

describe('the hierarchy for groups', () => {
  const first = lines(
    '30 20 0:30 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory',
    '31 20 0:31 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct',
    '32 20 0:32 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids',
  )
  const second = lines('40 20 0:40 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw,nsdelegate')
  const inContainer = lines('50 20 0:50 /docker/1 /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids')

  test.each([
    ['version 1, all at the top', '3:memory:/\n2:cpu,cpuacct:/\n1:pids:/\n', first, 'top', ['memory', 'cpu', 'pids']],
    ['a group that another program made is not used', '3:memory:/manager/1\n1:pids:/\n', first, 'top', ['pids']],
    ['nothing at the top', '3:memory:/a\n2:cpu,cpuacct:/a\n1:pids:/a\n', first, 'top', null],
    ['delegated groups', '3:memory:/a\n1:pids:/b\n', first, 'delegated', ['memory', 'pids']],
    ['the top of a container', '1:pids:/docker/1\n', inContainer, 'top', ['pids']],
    ['a group beside the container', '1:pids:/docker/2\n', inContainer, 'delegated', null],
    ['version 2 at the top', '0::/\n', second, 'top', ['memory', 'cpu', 'pids', 'freezer']],
    ['a service of version 2', '0::/system.slice/a.service\n', second, 'top', null],
    ['a delegated service', '0::/system.slice/a.service\n', second, 'delegated', ['memory', 'cpu', 'pids', 'freezer']],
    ['no groups at all', '', '', 'delegated', null],
  ] as const)('%s', (_, cgroup, mountinfo, place, controllers) => {
    const found = parseHierarchy(cgroup, mountinfo, place)
    expect(found === null ? null : Object.keys(found.folders)).toEqual(controllers)
  })

  test('shows where version 1 counts CPU time, with the controller of the CPU or separately', () => {
    const own = '3:memory:/\n2:cpu,cpuacct:/\n1:pids:/\n'
    expect(parseHierarchy(own, first, 'top')?.cpuTime).toBe('/sys/fs/cgroup/cpu,cpuacct/')
    const apart = lines(
      '30 20 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu',
      '31 20 0:31 / /sys/fs/cgroup/cpuacct rw - cgroup cgroup rw,cpuacct',
    )
    expect(parseHierarchy('2:cpu:/\n1:cpuacct:/\n', apart, 'top')?.cpuTime).toBe('/sys/fs/cgroup/cpuacct/')
    expect(parseHierarchy('2:cpu:/\n1:cpuacct:/a\n', apart, 'top')?.cpuTime).toBeUndefined()
  })

  test('shows where version 1 sets the cores of groups', () => {
    const mounts = lines(
      '30 20 0:30 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu',
      '31 20 0:31 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset',
    )
    expect(parseHierarchy('2:cpu:/\n1:cpuset:/\n', mounts, 'top')?.cores).toBe('/sys/fs/cgroup/cpuset/')
    expect(parseHierarchy('2:cpu:/\n1:cpuset:/a\n', mounts, 'top')?.cores).toBeUndefined()
  })

  test('a service creates groups in the unit beside its group', () => {
    const group = '/sys/fs/cgroup/system.slice/fairlead-apps.service'
    const found = parseHierarchy('0::/system.slice/fairlead.service\n', second, 'fairlead-apps.service')
    expect(found?.folders.pids).toBe(group)
    // Version 1: the server is at the top of a hierarchy in which systemd did not need a group for its unit.
    const own = '9:name=systemd:/system.slice/fairlead.service\n1:pids:/\n'
    expect(parseHierarchy(own, first, 'fairlead-apps.service')?.folders.pids).toBe(
      '/sys/fs/cgroup/pids/system.slice/fairlead-apps.service',
    )
    expect(parseHierarchy('0::/\n', second, 'fairlead-apps.service')).toBeNull()
  })

  test('a delegated service creates groups below its group', () => {
    expect(parseHierarchy('0::/system.slice/a.service\n', second, 'delegated')?.folders.pids).toBe(
      '/sys/fs/cgroup/system.slice/a.service',
    )
  })
})

/** The hierarchy of Debian 12's systemd 252, for processes of the user 1000. */
describe('the groups of a user of systemd', () => {
  const mounted =
    '91 360 0:38 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:76 - cgroup2 cgroup rw,nsdelegate\n'
  const users = '/user.slice/user-1000.slice/user@1000.service/app.slice'
  const scope = 'run-r98611faf64654b2aa2e4b8ba069d49ff.scope'
  const started = `0::${users}/${scope}\n`
  const found = (cgroup: string, delegated: readonly string[], usable = true) =>
    findHierarchy(cgroup, mounted, {
      isUsable: async () => usable,
      isDelegated: async ({ name, manager }) => delegated.includes(`${manager} ${name}`),
    })

  test('are used where systemd has delegated the group of the process', async () => {
    const hierarchy = await found(started, [`user ${scope}`])
    expect(hierarchy).toMatchObject({ version: 2, folders: { memory: `/sys/fs/cgroup${users}/${scope}` } })
  })

  test('are used by the next server, which its predecessor has started in the group to which it moved', async () => {
    const hierarchy = await found(`0::${users}/${scope}/fairlead-0123456789abcdef-server\n`, [`user ${scope}`])
    expect(hierarchy?.folders.memory).toBe(`/sys/fs/cgroup${users}/${scope}`)
  })

  test('are not touched where systemd keeps them for itself, although the user may write to them', async () => {
    expect(await found(started, [])).toBeNull()
    expect(await found('0::/user.slice/user-1000.slice/session-3.scope\n', [])).toBeNull()
  })

  test('are not touched in a service, which could not restart while its apps run', async () => {
    expect(await found('0::/system.slice/fairlead.service\n', ['system fairlead.service'])).toBeNull()
  })

  test('are not touched where nothing can be limited', async () => {
    expect(await found(started, [`user ${scope}`], false)).toBeNull()
  })

  test('are not requested where the top can be used', async () => {
    expect((await found('0::/\n', []))?.folders.memory).toBe('/sys/fs/cgroup/')
  })

  test.each([
    [started, { name: scope, manager: 'user' }],
    ['0::/user.slice/user-1000.slice/session-3.scope\n', { name: 'session-3.scope', manager: 'system' }],
    ['0::/system.slice/fairlead.service\n', { name: 'fairlead.service', manager: 'system' }],
    ['9:name=systemd:/system.slice/a.service\n4:memory:/\n0::/\n', { name: 'a.service', manager: 'system' }],
    ['0::/\n', null],
  ] as const)('belong to a unit: %j', (cgroup, unit) => {
    expect(unitOf(cgroup)).toEqual(unit)
  })
})

describe('the release that a process belongs to', () => {
  const data = '/var/lib/fairlead'
  const [apps, yielding] = [groupName(data), yieldingName(data)]

  test.each([
    [`/${apps}/dep_1.app`, 'dep_1'],
    [`/system.slice/fairlead-apps.service/${apps}/dep_1.web-2.app`, 'dep_1.web-2'],
    [`/system.slice/fairlead-builds.service/${yielding}/builds/dep_1.build`, 'dep_1'],
    // Build daemons and git are none of a release's processes.
    [`/${yielding}/dockerfiles/dep_1`, null],
    [`/${yielding}/dockerfiles/dep_1/daemon`, null],
    [`/${yielding}/tools/tool.1`, null],
    [`/${groupName('/elsewhere')}/dep_1.app`, null],
    [`/${yieldingName('/elsewhere')}/builds/dep_1.build`, null],
    ['/', null],
  ])('is in the path of its group: %s', (path, unit) => {
    expect(unitOfGroups(['/', path], data)).toBe(unit)
  })
})

describe('limits and counters', () => {
  test('are files of version 1', () => {
    const files = limitFiles(1, limits).map(({ file, value }) => [file, value])
    expect(files).toEqual([
      ['memory.limit_in_bytes', '512000000'],
      ['memory.memsw.limit_in_bytes', '512000000'],
      ['cpu.cfs_period_us', '100000'],
      ['cpu.cfs_quota_us', '50000'],
      ['pids.max', '512'],
    ])
  })

  test('are files of version 2', () => {
    const files = limitFiles(2, limits).map(({ file, value }) => [file, value])
    expect(files).toEqual([
      ['memory.max', '512000000'],
      ['memory.swap.max', '0'],
      ['cpu.max', '50000 100000'],
      ['pids.max', '512'],
    ])
  })

  test('raise a tiny share of a CPU to the kernel’s minimum', () => {
    expect(limitFiles(2, { ...limits, cpus: 0.001 })).toContainEqual(expect.objectContaining({ value: '1000 100000' }))
  })

  test('are counted in files of each version', () => {
    expect(counterFiles(1).map(({ file }) => file)).toEqual(['memory.oom_control', 'pids.events'])
    expect(counterFiles(2).map(({ file }) => file)).toEqual(['memory.events', 'pids.events'])
    expect(counterIn('low 0\noom 3\noom_kill 2\n', 'oom_kill')).toBe(2)
    expect(counterIn('max 0\n', 'oom_kill')).toBe(0)
  })
})

test('limits and counters of memory use the files of version 1', async () => {
  await using directory = await temporaryDirectory()
  const memory = join(directory.path, 'memory')
  await mkdir(memory)
  const groups = await openCgroups({ version: 1, folders: { memory } }, 'server')
  // A plain folder with files cannot be deleted like a cgroup, so this group is created only once.
  expect(await groups?.make('a', limits)).toEqual([join(memory, 'server', 'a', 'cgroup.procs')])
  expect(await readFile(join(memory, 'server', 'a', 'memory.limit_in_bytes'), 'utf8')).toBe('512000000')
  expect(await groups?.exceeded('a')).toBeNull()
  await writeFile(join(memory, 'server', 'a', 'memory.oom_control'), 'oom_kill_disable 0\nunder_oom 0\noom_kill 1\n')
  expect(await groups?.exceeded('a')).toBe('memory')
})

test('version 2 without controllers is not used', async () => {
  await using directory = await temporaryDirectory()
  await writeFile(join(directory.path, 'cgroup.controllers'), '\n')
  const hierarchy = { version: 2, folders: { pids: directory.path, memory: directory.path } } as const
  expect(await usableControllers(hierarchy)).toEqual([])
  expect(await openCgroups(hierarchy, 'server')).toBeNull()
})

test('version 2 enables its controllers for the groups below', async () => {
  await using directory = await temporaryDirectory()
  await writeFile(join(directory.path, 'cgroup.controllers'), 'cpuset cpu memory pids\n')
  const groups = await openCgroups({ version: 2, folders: { pids: directory.path } }, 'server')
  expect([...(groups?.controllers ?? [])].sort()).toEqual(['cpu', 'freezer', 'memory', 'pids'])
  const enabled = await readFile(join(directory.path, 'server', 'cgroup.subtree_control'), 'utf8')
  expect(enabled).toBe('+memory +cpu +pids')
})
