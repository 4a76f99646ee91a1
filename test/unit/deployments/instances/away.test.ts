import { expect, it } from 'vitest'
import { createInstanceControl, createRemoveApp } from '../../../../server/src/features/deployments/instances.ts'
import type { DeploymentRow } from '../../../../server/src/features/deployments/tables.ts'
import { createMeasureInstances } from '../../../../server/src/features/deployments/usage.ts'
import type { Handle, Images, ReleaseStore, Runtime } from '../../../../server/src/runtimes/runtime.ts'
import { createRuntimes } from '../../../../server/src/runtimes/runtimes.ts'

const away = async () => {
  throw new Error('the engine is away')
}

/** A runtime that records its calls, and an unavailable runtime of images. */
function twoRuntimes() {
  const done: string[] = []
  const note = (what: string) => async (release: { readonly id: string } | string) =>
    void done.push(`${what} ${typeof release === 'string' ? release : release.id}`)
  const releases = {
    halt: note('halt'),
    remove: note('remove'),
    removeApp: note('removeApp'),
    isMade: async () => true,
  }
  const gone = { halt: away, remove: away, removeApp: async () => undefined, isMade: async () => false }
  const runtime = (name: string, store: Partial<ReleaseStore>, images: Images | null) =>
    ({ name, releases: store, images }) as unknown as Runtime
  const runtimes = createRuntimes(runtime('process', releases, null), [
    runtime('docker', gone, { canBuild: true } as Images),
  ])
  const logs = { flush: async () => undefined, processes: async () => [], removeApp: async () => undefined }
  return { done, runtimes, logs, control: createInstanceControl({ runtimes, logs: logs as never }) }
}

it('an unavailable engine does not stop the end and removal of another runtime’s release', async () => {
  const { done, control } = twoRuntimes()
  const own = { id: 'dep_a', appId: 'app_a', runtime: 'process' }
  await control.halt(own)
  await control.remove(own)
  // Without a row, a later sweep finds the engine's containers.
  await control.remove({ ...own, id: 'dep_b', runtime: null })
  // A disabled runtime's instances cannot be ended otherwise.
  await control.remove({ ...own, id: 'dep_c', runtime: 'gone' })
  expect(done).toEqual(['halt dep_a', 'remove dep_a', 'remove dep_b', 'remove dep_c'])
})

it('a release of an unavailable engine does not count as removed', async () => {
  const { control } = twoRuntimes()
  const own = { id: 'dep_a', appId: 'app_a', runtime: 'docker' }
  await expect(control.halt(own)).rejects.toThrow('away')
  await expect(control.remove(own)).rejects.toThrow('away')
})

it('an app is removed while an engine is unavailable', async () => {
  const { done, runtimes, logs } = twoRuntimes()
  await createRemoveApp({ runtimes, logs })('app_a')
  expect(done).toEqual(['removeApp app_a'])
})

it('an instance that cannot be measured does not prevent other measurements', async () => {
  const handle = (runtime: string): Handle => ({ runtime, data: {} })
  const row = (id: string, runtime: string) =>
    ({ id, app_id: `app_${id}`, project_id: 'proj', instance: handle(runtime), build_plan: null }) as DeploymentRow
  const warned: unknown[] = []
  const measure = createMeasureInstances({
    store: {
      rows: { running: async () => [row('first', 'docker'), row('second', 'process')] },
      instances: { all: async () => [] },
    } as never,
    instances: { isAdopted: () => true },
    usageOf: async ({ runtime }) => (runtime === 'docker' ? away() : { memoryBytes: 1, cpuSeconds: 2, processes: 3 }),
    limitsOf: async () => ({ memoryBytes: 10, cpus: 1, diskBytes: 8e9 }),
    logger: { warn: (about: unknown) => void warned.push(about) } as never,
  })
  const measured = await measure(new AbortController().signal)
  expect(measured.map(({ deploymentId }) => deploymentId)).toEqual(['second'])
  expect(warned).toMatchObject([{ deployment: 'first' }])
})
