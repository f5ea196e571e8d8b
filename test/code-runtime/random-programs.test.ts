import * as fc from 'fast-check'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { CodeRuntime } from '../../server/code-runtime/code-runtime.ts'
import { openProcessRuntime } from '../../server/code-runtime/process/process-runtime.ts'
import { runProgram } from '../helpers/code-runtime.ts'
import { jsonValue } from '../helpers/json-arbitraries.ts'

// Set to 2000 for the long run.
const count = Number(process.env.TOOLWRIGHT_RANDOM_PROGRAMS ?? 50)

/** A statement of a random program, with what it adds to the logs and to `out`. */
interface Step {
  readonly text: string
  readonly logs: readonly string[]
  readonly out: readonly unknown[]
}

const step = (text: string, logs: readonly string[] = [], out: readonly unknown[] = []): Step => ({ text, logs, out })
const literal = (value: unknown) => `JSON.parse(${JSON.stringify(JSON.stringify(value))})`

/** What the boundary must not notice. */
const pollutions = [
  ...[
    'Object.prototype.toJSON = () => 7',
    'Object.prototype.get = 1',
    'Object.keys = Reflect.ownKeys = null',
    'globalThis.Object = undefined'
  ],
  ...[
    'String.prototype.slice = String.prototype.indexOf = null',
    'Map.prototype.get = Map.prototype.set = null',
    'Set.prototype.has = null'
  ],
  ...[
    'JSON.stringify = null',
    'Number.isFinite = () => false',
    'Error.prepareStackTrace = () => []',
    'Error.captureStackTrace = null',
    'delete globalThis.Error'
  ]
]

const steps: fc.Arbitrary<Step> = fc.oneof(
  fc
    .string({ unit: 'grapheme', maxLength: 20 })
    .map((text) => step(`console.log('%s', ${JSON.stringify(text)} as string)`, [text])),
  jsonValue.map((value) => step(`out.push(await tools.mirror(${literal(value)}))`, [], [value])),
  fc
    .tuple(fc.integer(), fc.integer())
    .map(([a, b]) => step(`out.push(await tools.add({ a: ${a}, b: ${b} }))`, [], [a + b])),
  fc
    .array(fc.integer(), { maxLength: 5 })
    .map((list) =>
      step(`out.push(await Promise.all(${JSON.stringify(list)}.map((n: number) => tools.mirror(n))))`, [], [list])
    ),
  fc
    .string({ maxLength: 10 })
    .map((why) =>
      step(`await tools.fail({ why: ${JSON.stringify(why)} }).catch((e: Error) => { console.log('%s', e.message) })`, [
        why
      ])
    ),
  fc.constant(
    step('try { await tools.mirror(undefined) } catch (e) { out.push((e as ToolCallError).toolName) }', [], ['mirror'])
  ),
  fc.constant(step('interface T { a: number }\ntype U = T | null')),
  fc.constantFrom(...pollutions).map((text) => step(`try { ${text} } catch {} // an earlier one may be in the way`))
)

const endings = fc.oneof(
  fc.constant({ text: 'return out', kind: undefined }),
  fc.constant({ text: 'throw new RangeError("end")', kind: 'exception' }),
  fc.constant({ text: 'return { at: new Date(0) }', kind: 'invalid-output' }),
  fc.constant({ text: 'process.exit(3)', kind: 'worker-exit' }),
  fc.constant({ text: 'return out }', kind: 'exception' })
)

describe('random programs', () => {
  let runtime: CodeRuntime
  beforeAll(async () => {
    runtime = await openProcessRuntime({ spareWorlds: 3 })
  }, 60_000)
  afterAll(() => runtime.dispose(), 30_000)

  it(`${count} of them do what they say`, { timeout: 60_000 + count * 5_000 }, async () => {
    const programs = fc.sample(fc.tuple(fc.array(steps, { maxLength: 8 }), endings), count)
    const lanes = Array.from({ length: 4 }, async () => {
      for (let next = programs.pop(); next !== undefined; next = programs.pop()) {
        const [body, end] = next
        const program = ['const out: unknown[] = []', ...body.map(({ text }) => text), end.text].join('\n')
        const { logs, value, error } = await runProgram(runtime, program)
        // Node's own `process.exit` may stumble over what the program did to the language.
        const isMarred = end.kind === 'worker-exit' && pollutions.some((text) => program.includes(text))
        expect([end.kind, isMarred && 'exception'], `${program}\n${error?.message}`).toContain(error?.kind)
        const hasRun = end.text !== 'return out }'
        expect(logs, program).toEqual(hasRun ? body.flatMap((each) => each.logs) : [])
        if (end.kind === undefined) expect(value, program).toEqual(body.flatMap((each) => each.out))
      }
    })
    await Promise.all(lanes)
    expect(runtime.load()).toMatchObject({ running: 0, queued: 0, stuck: 0 })
  })
})
