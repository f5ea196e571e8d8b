import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    pool: 'forks',
    // Two files at a time: they mostly wait for real processes. More would be each other's load.
    maxWorkers: 2,
    // On a machine that others use too, a real process may still be late; what is wrong is wrong every time.
    retry: process.env['CI'] === undefined ? 0 : 2,
    testTimeout: 60_000,
    hookTimeout: 60_000,
    coverage: { provider: 'v8', include: ['server/**', 'plugins/**', 'routes/**'], reporter: ['text', 'json-summary'] }
  }
})
