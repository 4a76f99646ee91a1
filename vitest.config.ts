import { randomBytes } from 'node:crypto'
import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** These files take longest, mostly because they wait. Vitest begins with the largest files, so some of them would end last. */
const slow = new RegExp(
  `/(${[
    'processes/.*',
    'http/errors|webhooks/sending|databases/limits|deployments/outcomes|schedules/times',
    'step/refusal|domains/checks-servers|deployments/disk',
    'bench/short|lifecycle/(lifecycle|outlives)|dashboard/pages|deployments/(kinds|limits)|containers/conformance|certificates/server',
  ].join('|')})\\.test\\.ts$`,
)

class SlowestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    // Files of a project follow each other: workers keep its modules.
    const rank = ({ moduleId, project }: TestSpecification) =>
      levels.findIndex(({ name }) => name === project.name) * 2 + (slow.test(moduleId) ? 0 : 1)
    return (await super.sort(files)).toSorted((one, other) => rank(one) - rank(other))
  }
}

/** The number of this run, which all of its folders and processes have. */
process.env['TEST_RUN'] ??= randomBytes(3).toString('hex')

const endLeftovers = 'test/harness/end-leftovers.ts'
const globalSetup = [endLeftovers, 'test/harness/global-setup.ts']

const expect = { poll: { timeout: 30_000 } }
/** Each look costs a request, a command or a walk through all processes, and what it waits for takes seconds. */
const patient = { poll: { ...expect.poll, interval: 100 } }

/** The levels of tests, see docs/testing.md. Each is a folder and a project. The first three run together. */
const levels = [
  { name: 'processes', groupOrder: 0, globalSetup },
  { name: 'api', groupOrder: 0, globalSetup, isolate: false },
  { name: 'unit', groupOrder: 0, globalSetup: [endLeftovers], isolate: false },
  {
    name: 'system',
    groupOrder: 1,
    globalSetup: [...globalSetup, 'test/harness/dashboard/global-setup.ts'],
    expect: patient,
  },
  { name: 'long', groupOrder: 2, globalSetup, expect: patient },
]

export default defineConfig({
  test: {
    // One more than the cores of a small machine: tests often wait.
    maxWorkers: 3,
    sequence: { sequencer: SlowestFirst },
    // A slow machine must not fail a test.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect,
    projects: levels.map(({ groupOrder, ...level }) => ({
      extends: true as const,
      test: { include: [`test/${level.name}/**/*.test.ts`], sequence: { groupOrder }, ...level },
    })),
  },
})
