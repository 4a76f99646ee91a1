import { expect, it } from 'vitest'
import { createMakeRelease } from '../../../server/src/features/deployments/make.ts'
import { createRuntimes } from '../../../server/src/runtimes/runtimes.ts'
import { deploymentRow, releaseOfRow } from '../../harness/deployment-row.ts'
import { createExampleRuntime } from '../../harness/runtimes/example.ts'
import { temporaryDirectory } from '../../harness/temporary.ts'

const plan = { kind: 'node', build: [], start: { argv: ['node', 'server.js'] } } as const

it('a release that is packed for another runtime is measured before its files are removed', async () => {
  await using directory = await temporaryDirectory()
  const builds = createExampleRuntime({ directory: directory.path, started: [] })
  const events: string[] = []
  const preferred = {
    ...builds,
    releases: { ...builds.releases, remove: async () => void events.push('removed') },
  }
  const make = createMakeRelease({
    runtimes: createRuntimes(preferred, [], { runtime: builds, pack: async () => void events.push('packed') }),
    jobs: { moveTo: async () => true },
    rows: { latestBuilt: async () => undefined },
    fetch: async () => ({ withinLimit: async () => undefined }),
    plans: { begin: () => ({ finish: async () => ({ ok: true, plan }), end: () => undefined }) },
    chooseOutput: async (_, value) => ({ ok: true, value }),
    build: async (_row, _release, _runtime, { pack }, signal) => {
      await pack?.(plan, { output: undefined as never, signal })
      return {
        value: plan,
        withinLimit: async () => {
          events.push('measured')
          throw new Error('it is too large')
        },
      }
    },
  })
  const made = make(deploymentRow(), releaseOfRow, { begin: () => undefined }, new AbortController().signal)
  await expect(made).rejects.toThrow('it is too large')
  expect(events).toEqual(['packed', 'measured'])
})
