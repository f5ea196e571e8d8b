import { configDefaults, defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Files whose tests take a minute and more: left to the end, they would run with nothing beside them. */
const long =
  /test\/(crash|hygiene|main|soak|code-runtime\/(hostile|process)|security\/(fuzz|approvals)|routes\/(tools-wire|permissions)|commands\/process|event-log\/sqlite\/upgrade)/

/** Minutes of starts and kills that one run of CI has no time for: `npm test` runs them, and `LONG_TESTS=1` does so under CI too. */
const longest = [
  'test/crash/{clock,failpoints,fsync-before-ack,power-cut}.test.ts',
  'test/code-runtime/hostile.test.ts'
]
const isShort = process.env['CI'] !== undefined && process.env['LONG_TESTS'] === undefined

class LongFilesFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    const isLong = ({ moduleId }: TestSpecification): boolean => long.test(moduleId)
    return [...sorted.filter(isLong), ...sorted.filter((file) => !isLong(file))]
  }
}

export default defineConfig({
  test: {
    include: ['test/**/*.test.ts'],
    exclude: [...configDefaults.exclude, ...(isShort ? longest : [])],
    pool: 'forks',
    sequence: { sequencer: LongFilesFirst },
    // Two files at a time: they mostly wait for real processes. More would be each other’s load.
    maxWorkers: 2,
    // On a machine that others use too, a real process may still be late; what is wrong is wrong every time.
    retry: process.env['CI'] === undefined ? 0 : 2,
    testTimeout: 60_000,
    hookTimeout: 60_000,
    coverage: { provider: 'v8', include: ['server/**', 'plugins/**', 'routes/**'], reporter: ['text', 'json-summary'] }
  }
})
