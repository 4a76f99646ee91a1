import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    // They are others' applications, with tests of their own.
    exclude: ['test/corpus/apps/**', '**/node_modules/**'],
    // Much of the time goes to waiting for processes to start.
    maxWorkers: 3,
    globalSetup: ['test/harness/global-setup.ts'],
    // Real servers and builds share two cores; a slow machine must not be a failing one.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    expect: { poll: { timeout: 30_000 } },
  },
})
