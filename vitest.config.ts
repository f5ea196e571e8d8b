import { configDefaults, defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Files whose tests take a minute and more: left to the end, they would run with nothing beside them. */
const long =
  /test\/(crash|hygiene|main|soak|code-runtime\/(hostile|process)|security\/(fuzz|approvals)|routes\/(tools-wire|permissions)|commands\/process|event-log\/sqlite\/upgrade)/

/** Minutes of starts and kills that one run of CI has no time for: `npm test` runs them, and `LONG_TESTS=1` does so under CI too. */
const longest = ['test/crash/{failpoints,power-cut}.test.ts']
const isShort = process.env['CI'] !== undefined && process.env['LONG_TESTS'] === undefined
const exclude = [...configDefaults.exclude, ...(isShort ? longest : [])]

/**
 * Folders whose tests start no server: they take less time than it takes to load what they test, so each of the two workers loads it
 * once for all of them. Nothing there may change what other modules see.
 */
const light = [
  'test/{json,schema,pipeline,scopes,scheduler,tools,types,authoring,approvals,invocations,registrations,config,auth,sessions}/**/*.test.ts'
]
const all = ['test/**/*.test.ts']

/** Long files come first and light ones last. A worker is shared only by files that follow each other. */
class LongFilesFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const place = ({ moduleId, project }: TestSpecification): number =>
      project.name === 'light' ? 2 : long.test(moduleId) ? 0 : 1
    return (await super.sort(files)).sort((a, b) => place(a) - place(b))
  }
}

export default defineConfig({
  test: {
    projects: [
      { extends: true, test: { name: 'whole', include: all, exclude: [...exclude, ...light] } },
      { extends: true, test: { name: 'light', include: light, isolate: false } }
    ],
    pool: 'forks',
    sequence: { sequencer: LongFilesFirst },
    // Three files at a time on two processors: they wait for real processes about a third of their time.
    maxWorkers: 3,
    // On a machine that others use too, a real process may still be late; what is wrong is wrong every time.
    retry: process.env['CI'] === undefined ? 0 : 2,
    testTimeout: 60_000,
    hookTimeout: 60_000,
    coverage: { provider: 'v8', include: ['server/**', 'plugins/**', 'routes/**'], reporter: ['text', 'json-summary'] }
  }
})
