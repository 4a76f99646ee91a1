import { expect, test } from 'vitest'
import { defaultBuildMemory } from '../../../server/src/platform/config/deploys.ts'
import { buildMemory, foundIn, remedyFor } from '../../../server/src/runtimes/process/confinement/groups.ts'

const machine = { place: null, version: null, isRoot: false, hasSystemd: true, hasUserManager: true } as const

test.each([
  ['a user with a systemd', machine, 'systemd-run --user --scope -p Delegate=yes fairlead serve'],
  ['a user without one', { ...machine, hasUserManager: false }, 'sudo fairlead service install'],
  ['a user whose systemd has few controllers', { ...machine, version: 2 }, 'sudo systemctl edit user@.service'],
  ['root', { ...machine, isRoot: true }, 'fairlead service install'],
  ['root with version 1', { ...machine, isRoot: true, version: 1 }, 'version 2 of control groups'],
  ['a container', { ...machine, hasSystemd: false }, 'the top of control groups'],
  ['a server with disabled groups', { ...machine, place: 'none' }, 'FAIRLEAD_CGROUPS=none'],
] as const)('doctor tells %s how to get control groups', (_, given, remedy) => {
  expect(remedyFor(given)).toContain(remedy)
})

test.each([
  [null, [], ['memory', 'cpu', 'pids', 'freezer'], 'none that this server may use'],
  [2, ['memory', 'cpu', 'pids', 'freezer'], [], 'version 2: memory, cpu, pids, freezer'],
  [1, ['cpu', 'pids', 'freezer'], ['memory'], 'memory; version 1 is there with cpu, pids, freezer'],
] as const)('doctor names the first missing part for version %j with %j', (version, there, lost, found) => {
  expect(foundIn(version, there, lost)).toBe(found)
})

test('a build gets 2,000 MB, and half of a small machine', () => {
  expect(defaultBuildMemory(24e9)).toBe(2e9)
  expect(defaultBuildMemory(2_061_123_456)).toBe(1_030_000_000)
})

test('doctor compares the memory of concurrent builds with the machine’s memory', () => {
  const deploys = { builds: 4, buildMemoryBytes: 2e9 } as Parameters<typeof buildMemory>[0]['deploys']
  expect(buildMemory({ deploys }, 16e9)).toMatchObject({ state: 'ok', found: expect.stringContaining('4 at once') })
  expect(buildMemory({ deploys }, 8e9)).toMatchObject({
    state: 'missing',
    cost: expect.stringContaining('FAIRLEAD_BUILD_MEMORY_MB'),
  })
})
