import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { pythonDeclarations } from '../../server/code-mode/sdk-python.ts'
import { typescriptDeclarations } from '../../server/code-mode/sdk-typescript.ts'
import type { SdkTool } from '../../server/code-mode/sdk-tool.ts'
import { assertSupportedSchema } from '../../server/schema/supported.ts'
import type { JsonSchema } from '../../server/schema/spec.ts'
import { foreign, nonsense, supported, text, type Sample } from './sdk-schemas.ts'
import { checkPython, parsePython, typecheck } from './sdk-toolchains.ts'

const slow = 120_000

/** A tool whose arguments and output are of the sample's schema. */
const toolOf = (name: string, { schema }: Sample, isForeign: boolean, description = ''): SdkTool => ({
  name,
  description,
  parameters: schema,
  output: schema,
  foreign: isForeign
})

/** A program that gives the value where the schema's type is asked for, and one that it refuses where an error is expected. */
function programOf(sample: Sample, isForeign: boolean): string {
  const lines = [
    typescriptDeclarations([toolOf('x', sample, isForeign)]),
    `const accepted: ToolOutputMap["x"] = ${JSON.stringify(sample.value)}`,
    `const call: Promise<ToolOutputMap["x"]> = tools.x(${JSON.stringify(sample.value)})`
  ]
  if (sample.refused !== undefined) {
    lines.push(
      '// @ts-expect-error the schema refuses it',
      `const refused: ToolOutputMap["x"] = ${JSON.stringify(sample.refused)}`
    )
  }
  return lines.join('\n')
}

/** Every complaint with the text that it is about, for the first few texts. */
function failures(texts: readonly string[], seed: number): string[] {
  const complaints = [...typecheck(texts)].slice(0, 3)
  return complaints.map(([index, lines]) => `seed ${seed}\n${lines.join('\n')}\n${texts[index]}`)
}

const newSeed = (): number => Math.trunc(Math.random() * 2 ** 31)

describe('generated schemas', () => {
  it('the generator of supported schemas keeps to the subset', () => {
    fc.assert(
      fc.property(supported, ({ schema }) => {
        assertSupportedSchema(schema)
      })
    )
  })

  it.each([
    ['supported', supported, false],
    ['foreign', foreign, true]
  ] as const)(
    'the TypeScript types of %s schemas compile, take what the schemas accept and nothing else',
    { timeout: slow },
    (_, samples, isForeign) => {
      const seed = newSeed()
      const programs = fc.sample(samples, { numRuns: 250, seed }).map((sample) => programOf(sample, isForeign))
      expect(failures(programs, seed)).toEqual([])
    }
  )

  it.each([
    ['supported', supported, false],
    ['foreign', foreign, true]
  ] as const)(
    'the Python types of %s schemas parse and take what the schemas accept',
    { timeout: slow },
    (_, samples, isForeign) => {
      const seed = newSeed()
      const all = fc.sample(samples, { numRuns: 400, seed })
      const texts = all.map((sample) => pythonDeclarations([toolOf('x', sample, isForeign)]))
      expect(parsePython(texts)).toEqual([])
      const { evaluated, complaints } = checkPython(
        all.map((sample, index) => ({ text: texts[index]!, tool: 'x', accepted: [sample.value], refused: [] }))
      )
      expect(complaints, `seed ${seed}`).toEqual([])
      expect(evaluated).toBeGreaterThan(200)
    }
  )

  it('the Python types of plain schemas refuse what the schemas refuse', { timeout: slow }, () => {
    const seed = newSeed()
    const samples = fc.sample(supported, { numRuns: 300, seed }).filter(({ refused }) => refused !== undefined)
    const checks = samples.map((sample) => ({
      text: pythonDeclarations([toolOf('x', sample, false)]),
      tool: 'x',
      accepted: [],
      refused: [sample.refused]
    }))
    // An object with a name that Python cannot write is `dict[str, Any]`, which says less.
    const said = checks.filter(({ text: block }) => !block.includes('dict[str, Any]'))
    expect(said.length).toBeGreaterThan(50)
    expect(checkPython(said).complaints, `seed ${seed}`).toEqual([])
  })

  it(
    'many tools of any name and description, foreign and broken schemas among them, compile and parse together',
    { timeout: slow },
    () => {
      const seed = newSeed()
      const toolName = fc.oneof(
        text,
        fc.constantFrom(
          'a',
          'A',
          'a-b',
          'a_b',
          'aB',
          '__proto__',
          'constructor',
          'class',
          'self',
          'run_code',
          'JsonValue',
          'Tools'
        )
      )
      const schema = fc.oneof(
        fc.tuple(
          supported.map((sample) => sample.schema),
          fc.boolean()
        ),
        foreign.map((sample): [JsonSchema, boolean] => [sample.schema, true]),
        nonsense.map((value): [JsonSchema, boolean] => [value as JsonSchema, true])
      )
      const tool = fc
        .record({ name: toolName, description: text, args: schema, output: schema })
        .map(({ name, description, args, output }): SdkTool => ({
          name,
          description,
          parameters: args[0],
          output: output[0],
          foreign: args[1] && output[1]
        }))
      const sets = fc.sample(fc.uniqueArray(tool, { maxLength: 8, selector: ({ name }) => name }), {
        numRuns: 150,
        seed
      })
      expect(failures(sets.map(typescriptDeclarations), seed)).toEqual([])
      expect(parsePython(sets.map(pythonDeclarations)), `seed ${seed}`).toEqual([])
      fc.assert(
        fc.property(fc.constantFrom(...sets.filter((set) => set.length > 1)), fc.nat(), (set, turn) => {
          const shuffled = set.map((_, index) => set[(index + turn) % set.length]!).toReversed()
          expect(typescriptDeclarations(shuffled)).toBe(typescriptDeclarations(set))
          expect(pythonDeclarations(shuffled)).toBe(pythonDeclarations(set))
        })
      )
    }
  )

  it('a schema of nonsense never throws', { timeout: slow }, () => {
    fc.assert(
      fc.property(nonsense, fc.boolean(), (schema, isForeign) => {
        const tool = {
          name: 'x',
          description: '',
          parameters: schema as JsonSchema,
          output: schema as JsonSchema,
          foreign: isForeign
        }
        expect(typescriptDeclarations([tool])).toContain('  x: ')
        expect(pythonDeclarations([tool])).toContain('async def x(')
      }),
      { numRuns: 1000 }
    )
  })
})

describe('what programs may write', () => {
  const tools: SdkTool[] = [
    {
      name: 'search',
      description: 'Search.',
      parameters: {
        type: 'object',
        properties: { q: { type: 'string' }, mode: { type: 'string', enum: ['fast', 'full'] } },
        required: ['q'],
        additionalProperties: false
      },
      output: {
        type: 'array',
        items: {
          type: 'object',
          properties: { path: { type: 'string' }, score: { type: 'number' } },
          required: ['path'],
          additionalProperties: false
        }
      }
    },
    {
      name: 'my-tool',
      description: '',
      parameters: { type: 'object', additionalProperties: false },
      output: { oneOf: [{ type: 'string' }, { type: 'null' }] }
    },
    {
      name: 'open',
      description: '',
      parameters: { type: 'object', properties: { a: { type: 'integer' } } },
      output: {}
    },
    { name: 'bad', description: '', parameters: { type: 'object' }, output: { $ref: '#' } }
  ]
  const declarations = typescriptDeclarations(tools)

  const right = [
    `const hits = await tools.search({ q: 'x', mode: 'fast' }); const paths: string[] = hits.map((hit) => hit.path); const score: number | undefined = hits[0]?.score`,
    `const text: string | null = await tools["my-tool"]({})`,
    `const value: JsonValue = await tools.open({ a: 1, further: [null, { x: true }] })`,
    `const [a, b] = await Promise.all([tools.search({ q: '' }), tools.open({})]); a.length; const c: JsonValue = b`,
    `try { await tools.open({}) } catch (e) { if (e instanceof ToolCallError) { const n: "ToolCallError" = e.name; const t: "bad" | "my-tool" | "open" | "search" = e.toolName; const m: string = e.message } }`,
    `const names: ToolName[] = ["search", "my-tool", "open", "bad"]; const value: unknown = await tools.bad({})`,
    `async function call<K extends ToolName>(name: K, args: ToolArgsMap[K]): Promise<ToolOutputMap[K]> { return tools[name](args) }`
  ]

  const wrong = [
    `await tools.search({})`,
    `await tools.search({ q: 1 })`,
    `await tools.search({ q: '', mode: 'slow' })`,
    `await tools.search({ q: '', limit: 1 })`,
    `await tools.search()`,
    `const text: string = await tools["my-tool"]({})`,
    `await tools["my-tool"]({ a: 1 })`,
    `(await tools.search({ q: '' }))[0].score`,
    `const n: number = await tools.open({})`,
    `await tools.open({ a: 'x' })`,
    `await tools.open({ further: new Date() })`,
    `await tools.open({ further: undefined })`,
    `await tools.run_code({ code: '', description: '' })`,
    `(await tools.bad({})).x`,
    `const name: ToolName = "other"`,
    `tools.search = tools.search as never; tools.other`
  ]

  it('the right programs compile, the wrong ones do not', { timeout: slow }, () => {
    const complaints = typecheck([...right, ...wrong].map((program) => `${declarations}\n${program}`))
    expect(right.filter((_, index) => complaints.has(index))).toEqual([])
    expect(wrong.filter((_, index) => !complaints.has(right.length + index))).toEqual([])
  })
})
