import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    pool: 'forks',
    // Most tests wait for processes and sockets, not for the processor.
    maxWorkers: 2,
    // On a machine that others use too, a real process may be late once; what is wrong is wrong twice.
    retry: process.env['CI'] === undefined ? 0 : 1,
    testTimeout: 60_000,
    hookTimeout: 60_000,
    coverage: { provider: 'v8', include: ['server/**', 'plugins/**', 'routes/**'], reporter: ['text', 'json-summary'] }
  }
})
