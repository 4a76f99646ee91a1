import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { withoutLast } from '../../server/src/platform/cgroups/cpu-share.ts'
import { usableControllers } from '../../server/src/platform/cgroups.ts'
import {
  closeGroups,
  detectCapabilities,
  type HostCapabilities,
} from '../../server/src/runtimes/process/confinement/capabilities.ts'
import { readHierarchy } from '../../server/src/runtimes/process/confinement/groups.ts'
import type { Handle, Runtime } from '../../server/src/runtimes/runtime.ts'
import { skipped } from '../harness/ordinary-user.ts'
import { silentLogger } from '../harness/platform/fixtures/silent-logger.ts'
import { canSetCores, coresOf } from '../harness/runtimes/cores.ts'
import { type Bench, createBench, identities } from '../harness/runtimes/support.ts'

const hierarchy = await readHierarchy('top')
const usable = hierarchy === null ? [] : await usableControllers(hierarchy)
if (!usable.includes('cpu')) skipped('builds that give way', 'no control groups limit the CPU here')

/** Uses a core as long as it runs. */
const busy = ['node', '-e', 'for (;;);'] as const
/** The build needs this much of a core besides its start. */
const buildSeconds = 0.5
const build = ['node', '-e', `while (process.cpuUsage().user < ${buildSeconds * 1e6});`] as const
/**
 * A build has a fifth of its share with the apps, half of the time. A build that is always idle has three parts in a
 * thousand. This limit is well between the two, whatever else the machine does.
 */
const leastPart = 0.01

describe.skipIf(!usable.includes('cpu'))('a build', () => {
  let bench: Bench
  let host: HostCapabilities
  let runtime: Runtime
  let leavesCore = false
  beforeAll(async () => {
    bench = await createBench()
    host = await detectCapabilities({
      cgroups: 'top',
      path: process.env['PATH'] ?? '',
      directory: bench.directory,
      isRoot: process.getuid?.() === 0,
      programs: bench.programs,
      network: null,
      leavesCore: () => leavesCore,
      logger: silentLogger,
    })
    runtime = bench.newRuntime({ uids: identities[0]?.uids ?? null, host })
  })
  afterAll(async () => {
    await bench.dispose()
    await closeGroups(host)
  })

  /** Returns the kernel's file that shows whether builds are idle; the empty text without such a file. */
  const idle = () => {
    const folder = host.yielding?.hierarchy.folders.cpu ?? ''
    return readFile(join(folder, 'cpu.idle'), 'utf8').then(
      (text) => text.trim(),
      () => '',
    )
  }

  test('gives way to everything else, and uses the machine’s free time', async ({ skip }) => {
    if (!existsSync(join(hierarchy?.folders.cpu ?? '', 'cpu.idle'))) skip('this kernel has no idle groups')
    const release = await bench.release(runtime, 'unruly')
    const over = new AbortController()
    const built = bench.build(runtime, release, [busy], over.signal).catch(() => undefined)
    await vi.waitFor(async () => expect(await host.builds?.processesOf(`${release.id}.build`)).not.toEqual([]), 30_000)
    await vi.waitFor(async () => expect(await idle()).toBe('1'), 30_000)
    over.abort(new Error('enough'))
    await built
    await runtime.releases.remove(release)
  })

  test('leaves a core free for as long as the server asks', async ({ skip }) => {
    const all = await coresOf(process.pid)
    if (!(await canSetCores())) skip('one core, or cores that cannot be set')
    const release = await bench.release(runtime, 'unruly')
    const over = new AbortController()
    const built = bench.build(runtime, release, [busy], over.signal).catch(() => undefined)
    const cores = async () => {
      const pids = (await host.builds?.processesOf(`${release.id}.build`)) ?? []
      expect(pids).not.toEqual([])
      return new Set(await Promise.all(pids.map(coresOf)))
    }
    await vi.waitFor(cores, 30_000)
    for (const [leaves, expected] of [
      [true, withoutLast(all)],
      [false, all],
    ] as const) {
      leavesCore = leaves
      await vi.waitFor(async () => expect(await cores()).toEqual(new Set([expected])), 30_000)
    }
    over.abort(new Error('enough'))
    await built
    await runtime.releases.remove(release)
  })

  test('finishes while apps use all cores', async () => {
    const apps: { readonly release: Parameters<Runtime['releases']['remove']>[0]; readonly handle: Handle }[] = []
    for (let core = 0; core < availableParallelism(); core++) {
      const release = await bench.release(runtime, 'unruly')
      apps.push({ release, handle: await bench.start(runtime, release, busy) })
    }
    const used = async () =>
      (await Promise.all(apps.map(({ handle }) => runtime.instances.usage(handle)))).reduce(
        (sum, { cpuSeconds }) => sum + cpuSeconds,
        0,
      )
    const release = await bench.release(runtime, 'unruly')
    const before = await used()
    expect(await bench.build(runtime, release, [build])).toEqual({ ok: true })
    const ofApps = (await used()) - before
    for (const each of [...apps, { release }]) await runtime.releases.remove(each.release)
    expect(buildSeconds / ofApps).toBeGreaterThan(leastPart)
  }, 240_000)
})
