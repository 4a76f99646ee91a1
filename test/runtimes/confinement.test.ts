import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { limitsOf } from '../../server/src/runtimes/limits.ts'
import { noCapabilities } from '../../server/src/runtimes/process/confinement/capabilities.ts'
import { createConfinement, warningOf } from '../../server/src/runtimes/process/confinement/confinement.ts'
import { groupUsage } from '../../server/src/runtimes/process/confinement/group-usage.ts'
import { exceededLimit, groupLimits, prlimitArguments } from '../../server/src/runtimes/process/confinement/limits.ts'
import { sandboxArguments } from '../../server/src/runtimes/process/confinement/sandbox.ts'
import { localRelease, pathsOf } from '../../server/src/runtimes/process/release/layout.ts'
import { temporaryDirectory } from '../harness/temporary.ts'

const release = {
  id: 'dep_1',
  appId: 'app_1',
  appNumber: 1,
  limits: { memoryBytes: 1, cpus: 1 },
  variables: {},
}

test('everybody who deploys is warned where nothing separates the apps', () => {
  expect(warningOf({ sandbox: null }, false)).toContain('deploy only code that you trust')
  expect(warningOf({ sandbox: { program: '/usr/bin/bwrap', isModern: true } }, false)).toBeNull()
  expect(warningOf({ sandbox: null }, true)).toBeNull()
})

test('bubblewrap gets the release’s own folders and nothing else of the data directory', () => {
  const paths = pathsOf('/data/apps', release)
  const argumentsOf = (kind: 'build' | 'app', isModern: boolean) =>
    sandboxArguments(paths, kind, { isModern, programs: ['/data/runtime/bin'], dataDirectory: '/data' })
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
    // The data directory is hidden before anything in it is shown.
    expect(args.indexOf('/data')).toBeLessThan(args.indexOf('/data/runtime/bin'))
    expect(args.slice(-3)).toEqual(['--chdir', `${app}/releases/dep_1/source`, '--'])
  }
})

test('a sandboxed command is started by bubblewrap, and so is one beside it', async () => {
  const confinement = createConfinement(
    {
      ...noCapabilities,
      sandbox: { program: '/usr/bin/bwrap', isModern: true },
    },
    () => undefined,
  )
  const local = localRelease(release, { apps: '/apps', uids: null })
  for (const entry of [await confinement.open(local, 'app'), confinement.join(local)]) {
    expect(entry.prefix[0]).toBe('/usr/bin/bwrap')
    expect(entry.groups).toEqual([])
  }
})

test('an app has the limits of the plan, a build more memory and at least one CPU', () => {
  const limits = limitsOf({ memory_mb: 512, cpus: 0.5 })
  expect(groupLimits(limits, 'app')).toMatchObject({ memoryBytes: 512e6, cpus: 0.5, givesWay: false })
  expect(groupLimits(limits, 'build')).toMatchObject({ memoryBytes: 1024e6, cpus: 1, givesWay: true })
  expect(groupLimits({ ...limits, cpus: 4 }, 'build').cpus).toBe(4)
})

test('an exceeded limit says what was allowed', () => {
  expect(exceededLimit('out_of_memory', 'app', 512e6)).toEqual({ code: 'out_of_memory', allowed: 512e6 })
  expect(exceededLimit('out_of_memory', 'build', 512e6)).toEqual({ code: 'out_of_memory', allowed: 1024e6 })
  expect(exceededLimit('too_many_processes', 'app', 512e6)).toEqual({ code: 'too_many_processes', allowed: 512 })
})

test('prlimit stands in for missing groups', () => {
  const limits = groupLimits(limitsOf({ memory_mb: 512, cpus: 1 }), 'app')
  const all = { groupsMemory: true, groupsProcesses: true, ownUser: true }
  expect(prlimitArguments(limits, all)).toEqual(['--core=0', '--nofile=8192'])
  expect(prlimitArguments(limits, { ...all, groupsMemory: false })).toContain('--data=1512000000')
  expect(prlimitArguments(limits, { ...all, groupsProcesses: false })).toContain('--nproc=512')
  // The server's own processes would count.
  const shared = { ...all, groupsProcesses: false, ownUser: false }
  expect(prlimitArguments(limits, shared).join(' ')).not.toContain('nproc')
})

test.each([
  [
    1,
    {
      'memory.usage_in_bytes': '5000\n',
      'memory.stat': 'inactive_file 1\ntotal_inactive_file 2000\n',
      'cpuacct.usage': '1500000000\n',
    },
  ],
  [
    2,
    { 'memory.current': '5000\n', 'memory.stat': 'anon 9\ninactive_file 2000\n', 'cpu.stat': 'usage_usec 1500000\n' },
  ],
] as const)('a group of version %i is measured without the files that it has cached', async (version, files) => {
  await using directory = await temporaryDirectory()
  await mkdir(join(directory.path, 'group'))
  for (const [name, text] of Object.entries(files)) await writeFile(join(directory.path, 'group', name), text)
  const folders = { memory: directory.path, cpu: directory.path }
  expect(await groupUsage(folders, version, 'group')).toEqual({ memoryBytes: 3000, cpuSeconds: 1.5 })
  expect(await groupUsage(folders, version, 'none')).toEqual({ memoryBytes: null, cpuSeconds: null })
  expect(await groupUsage({}, version, 'group')).toEqual({ memoryBytes: null, cpuSeconds: null })
})
