import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { sandboxArguments } from '../../../server/src/platform/sandbox/arguments.ts'
import { limitsOf } from '../../../server/src/runtimes/limits.ts'
import { noCapabilities } from '../../../server/src/runtimes/process/confinement/capabilities.ts'
import {
  createConfinement,
  groupUsage,
  peakMemory,
  viewOf,
  warningOf,
} from '../../../server/src/runtimes/process/confinement/confinement.ts'
import {
  exceededLimit,
  groupLimits,
  prlimitArguments,
} from '../../../server/src/runtimes/process/confinement/limits.ts'
import { pathsOf } from '../../../server/src/runtimes/process/release-folders.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

const sandbox = {
  program: '/usr/bin/bwrap',
  isModern: true,
  bindsDescriptors: true,
  setpriv: null,
  systemV: null,
  copies: null,
  system: [],
  filter: null,
}
const release = {
  id: 'dep_1',
  appId: 'app_1',
  appNumber: 1,
  projectId: 'proj_1',
  internalName: 'app',
  limits: { memoryBytes: 1, cpus: 1, diskBytes: 8e9 },
  variables: {},
}

test('everybody who deploys is warned where nothing separates the apps', () => {
  expect(warningOf({ sandbox: null }, false)).toContain('deploy only code that you trust')
  expect(warningOf({ sandbox: null }, true)).toContain('install bubblewrap')
  for (const isRoot of [true, false]) expect(warningOf({ sandbox }, isRoot)).toBeNull()
})

test('bubblewrap gets only the release’s own folders of the data directory', () => {
  const paths = pathsOf('/data/apps', release)
  const argumentsOf = (kind: 'build' | 'app', isModern: boolean) =>
    sandboxArguments(
      { isModern, isRoot: false, bindsDescriptors: true, hasSystemV: false, system: [], copies: null },
      viewOf({ ...release, paths, user: null, origins: [] }, kind, 'group', {
        ...noCapabilities,
        programs: ['/data/runtime/bin'],
        dataDirectory: '/data',
      }),
    )
  const bound = (args: readonly string[]) =>
    args.filter((each, at) => each.startsWith('/data') && args[at - 1]?.includes('bind'))
  const app = '/data/apps/app_1'
  const own = ['/data/runtime/bin', `${app}/releases/dep_1`, `${app}/home`, `${app}/tmp`]
  expect(bound(argumentsOf('app', true))).toEqual(own)
  expect(bound(argumentsOf('build', true))).toEqual([...own, `${app}/cache`])
  for (const isModern of [true, false]) {
    const args = argumentsOf('app', isModern)
    expect(args).toContain('--unshare-pid')
    expect(args.includes('--size')).toBe(isModern)
    // The data directory is hidden before any part is shown.
    expect(args.indexOf('/data')).toBeLessThan(args.indexOf('/data/runtime/bin'))
    expect(args.slice(-2)).toEqual(['--chdir', `${app}/releases/dep_1/source`])
  }
})

test('the build folder of copied files leads to the copy', () => {
  const paths = pathsOf('/data/apps', release)
  const origins = ['/data/apps/app_0/releases/dep_0/source']
  const args = sandboxArguments(
    { isModern: true, isRoot: true, bindsDescriptors: true, hasSystemV: false, system: [], copies: null },
    viewOf({ ...release, paths, user: null, origins }, 'app', 'group', {
      ...noCapabilities,
      programs: [],
      dataDirectory: '/data',
    }),
  )
  const at = args.indexOf('--symlink')
  expect(args.slice(at, at + 3)).toEqual(['--symlink', paths.source, origins[0]])
  expect(args.indexOf('/data')).toBeLessThan(at)
  expect(args.indexOf('--remount-ro')).toBeGreaterThan(at)
})

test('bubblewrap starts a sandboxed command, and a command beside it', async () => {
  const confinement = createConfinement({ ...noCapabilities, sandbox }, { buildMemoryBytes: 1, fence: () => undefined })
  const local = { ...release, paths: pathsOf('/apps', release), user: null, origins: [] }
  for (const entry of [await confinement.open(local, 'app'), confinement.join(local, { pid: 1, startTime: '1' })]) {
    expect(entry.sandbox).toMatchObject({ sandbox, view: { directory: local.paths.source } })
    expect(entry.groups).toEqual([])
  }
})

test('an app has the limits of the plan, a build the memory of the server’s builds and at least one CPU', () => {
  const limits = limitsOf({ memory_mb: 512, cpus: 0.5, app_gb: 8 })
  expect(groupLimits(limits, 'app', 2e9)).toMatchObject({ memoryBytes: 512e6, cpus: 0.5 })
  expect(groupLimits(limits, 'build', 2e9)).toMatchObject({ memoryBytes: 2e9, cpus: 1 })
  expect(groupLimits({ ...limits, cpus: 4 }, 'build', 2e9).cpus).toBe(4)
})

test('an exceeded limit reports the allowance and the usage', () => {
  const memory = { allowed: 512e6, used: 600e6 }
  expect(exceededLimit('out_of_memory', memory)).toEqual({ code: 'out_of_memory', allowed: 512e6, used: 600e6 })
  expect(exceededLimit('too_many_processes', memory)).toEqual({ code: 'too_many_processes', allowed: 512, used: null })
})

test('prlimit replaces missing groups, and does not limit reserved addresses', () => {
  const all = { groupsProcesses: true, ownUser: true, descriptors: 1_048_576 }
  expect(prlimitArguments(all)).toEqual(['--core=0', '--nofile=8192'])
  expect(prlimitArguments({ ...all, descriptors: 4_096 })).toContain('--nofile=4096')
  expect(prlimitArguments({ ...all, groupsProcesses: false })).toEqual(['--core=0', '--nofile=8192', '--nproc=512'])
  // The server's own processes would count.
  expect(prlimitArguments({ ...all, groupsProcesses: false, ownUser: false }).join(' ')).not.toContain('nproc')
})

test.each([
  [
    1,
    {
      'memory.usage_in_bytes': '5000\n',
      'memory.stat': 'inactive_file 1\ntotal_inactive_file 2000\n',
      'cpuacct.usage': '1500000000\n',
      'memory.max_usage_in_bytes': '7000\n',
    },
  ],
  [
    2,
    {
      'memory.current': '5000\n',
      'memory.stat': 'anon 9\ninactive_file 2000\n',
      'cpu.stat': 'usage_usec 1500000\n',
      'memory.peak': '7000\n',
    },
  ],
] as const)('the measurement of a group of version %i excludes its cached files', async (version, files) => {
  await using directory = await temporaryDirectory()
  await mkdir(join(directory.path, 'group'))
  for (const [name, text] of Object.entries(files)) await writeFile(join(directory.path, 'group', name), text)
  const folders = { memory: directory.path, cpu: directory.path }
  expect(await groupUsage(folders, version, 'group')).toEqual({ memoryBytes: 3000, cpuSeconds: 1.5 })
  expect(await groupUsage(folders, version, 'none')).toEqual({ memoryBytes: null, cpuSeconds: null })
  expect(await groupUsage({}, version, 'group')).toEqual({ memoryBytes: null, cpuSeconds: null })
  expect(await peakMemory(folders, version, 'group')).toBe(7000)
  expect(await peakMemory(folders, version, 'none')).toBeNull()
})
