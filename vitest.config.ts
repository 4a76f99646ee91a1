import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/harness/global-setup.ts'],
    // Real servers and builds share two cores; a slow machine must not be a failing one.
    testTimeout: 120_000,
    hookTimeout: 120_000,
    typecheck: { enabled: false },
  },
})
