import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Short files that take long. Vitest begins with the largest files, so these would end last. */
const slow = /\/(lifecycle\/lifecycle|containers\/conformance|certificates\/server)\.test\.ts$/

class SlowestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) => (slow.test(moduleId) ? 0 : 1)
    return (await super.sort(files)).toSorted((one, other) => rank(one) - rank(other))
  }
}

const globalSetup = ['test/harness/global-setup.ts']

/** The levels of tests, see docs/testing.md. Each is a folder and a project. */
const levels = [
  { name: 'unit', isolate: false },
  { name: 'api', isolate: false, globalSetup },
  { name: 'processes', globalSetup },
  // System tests wait for processes most of the time.
  { name: 'system', globalSetup: [...globalSetup, 'test/harness/dashboard/global-setup.ts'], maxWorkers: 3 },
  { name: 'long', globalSetup },
]

export default defineConfig({
  test: {
    maxWorkers: 2,
    sequence: { sequencer: SlowestFirst },
    // A slow machine must not fail a test.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 30_000 } },
    projects: levels.map((level, groupOrder) => ({
      extends: true as const,
      test: { include: [`test/${level.name}/**/*.test.ts`], sequence: { groupOrder }, ...level },
    })),
  },
})
