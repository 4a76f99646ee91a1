import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Files that take long although they are short. Vitest begins with the largest ones, and these would be the last to end. */
const long = /\/(e2e\/chaos|runtimes\/docker\/conformance|hostile\/domains|certificates\/server)\.test\.ts$/

class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) => (long.test(moduleId) ? 0 : 1)
    return (await super.sort(files)).toSorted((one, other) => rank(one) - rank(other))
  }
}

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    // They are others' applications, with tests of their own.
    exclude: ['test/corpus/apps/**', '**/node_modules/**'],
    // Much of the time goes to waiting for processes to start.
    maxWorkers: 3,
    sequence: { sequencer: LongestFirst },
    globalSetup: ['test/harness/global-setup.ts'],
    // Real servers and builds share two cores; a slow machine must not be a failing one.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 30_000 } },
  },
})
