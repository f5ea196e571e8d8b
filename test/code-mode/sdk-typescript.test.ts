import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { typescriptDeclarations } from '../../server/code-mode/sdk-typescript.ts'
import type { SdkTool } from '../../server/code-mode/sdk-tool.ts'
import type { JsonSchema } from '../../server/schema/spec.ts'

const tool = (name: string, more: Partial<SdkTool> = {}): SdkTool => ({
  name,
  description: '',
  parameters: { type: 'object', additionalProperties: false },
  output: {},
  ...more
})

/** The text of a schema as the output of a tool. */
function typeOf(output: unknown, foreign = false): string {
  const text = typescriptDeclarations([tool('x', { output: output as JsonSchema, foreign })])
  const start = text.indexOf('interface ToolOutputMap {\n') + 'interface ToolOutputMap {\n  x: '.length
  return text.slice(start, text.indexOf('\n}\n', start) - 1)
}

const example = [
  tool('my-tool.v2', {
    description: '  Exotic */ name\n\tsecond line ',
    parameters: {
      type: 'object',
      properties: { q: { type: 'string', description: ' Query.\n' }, n: { type: 'number' } },
      required: ['q']
    },
    output: { type: 'array', items: { type: 'string', enum: ['a|b'] } }
  }),
  tool('class', {
    description: 'Reserved.',
    parameters: { type: 'object', properties: { v: { type: 'integer' } }, required: ['v'], additionalProperties: false }
  }),
  tool('Alpha', { description: ' \n ', output: { type: 'null' } })
]

const golden = `type JsonValue = null | boolean | number | string | JsonValue[] | { [key: string]: JsonValue }

interface ToolArgsMap {
  Alpha: Record<string, never>;
  /** Reserved. */
  class: {
    v: number;
  };
  /** Exotic *\\/ name second line */
  "my-tool.v2": {
    /** Query. */
    q: string;
    n?: number;
  } & Record<string, JsonValue>;
}

interface ToolOutputMap {
  Alpha: null;
  class: JsonValue;
  "my-tool.v2": ("a|b")[];
}

type ToolName = keyof ToolOutputMap

declare class ToolCallError extends Error {
  readonly name: "ToolCallError";
  readonly toolName: ToolName;
}

declare const tools: {
  [K in ToolName]: (args: ToolArgsMap[K]) => Promise<ToolOutputMap[K]>;
};`

describe('the TypeScript text (code-mode.md §4.3)', () => {
  it('C012 golden, in any order of registration, without the transport', () => {
    expect(typescriptDeclarations(example)).toBe(golden)
    expect(typescriptDeclarations([tool('run_code'), ...example.toReversed()])).toBe(golden)
    expect(golden).not.toMatch(/[ \t]$/m)
  })

  it('an empty set of tools', () => {
    expect(typescriptDeclarations([])).toContain(
      'interface ToolArgsMap {}\n\ninterface ToolOutputMap {}\n\ntype ToolName'
    )
  })

  it('C013 the same bytes for the same set, whatever its order', () => {
    const names = ['b', 'B', 'a_', '_a', 'é', 'my-tool', '3d', 'z', 'Z', 'a']
    const tools = names.map((name) => tool(name, { description: `Does ${name}.` }))
    const text = typescriptDeclarations(tools)
    fc.assert(
      fc.property(fc.shuffledSubarray(tools, { minLength: tools.length }), (shuffled) => {
        expect(typescriptDeclarations(shuffled)).toBe(text)
      })
    )
    const positions = ['  B: Rec', '  _a: Rec', '  a_: Rec', '  b: Rec', '  "é": Rec'].map((member) =>
      text.indexOf(member)
    )
    expect(positions).toEqual(positions.toSorted((a, b) => a - b))
    expect(positions[0]).toBeGreaterThan(0)
  })

  it('C014 odd names are quoted, keywords and __proto__ are not', () => {
    const text = typescriptDeclarations(
      ['my-tool', '3d', 'class', 'constructor', '__proto__', '$x', ''].map((name) => tool(name))
    )
    for (const member of ['"my-tool"', '"3d"', 'class', 'constructor', '__proto__', '$x', '""']) {
      expect(text.split(`\n  ${member}: `)).toHaveLength(3)
    }
  })

  it.each<[JsonSchema, string]>([
    [{ type: 'string' }, 'string'],
    [{ type: 'boolean' }, 'boolean'],
    [{ type: 'null' }, 'null'],
    [{ type: 'number' }, 'number'],
    [{ type: 'integer' }, 'number'],
    [{ type: 'string', const: 'a', enum: ['a', 'b'] }, '"a"'],
    [{ type: 'number', enum: [1, -2.5, 1e21] }, '1 | -2.5 | 1e+21'],
    [{ type: 'string', enum: ['a|b'] }, '"a|b"'],
    [{ type: 'array' }, 'JsonValue[]'],
    [{ type: 'array', items: {} }, 'JsonValue[]'],
    [{ type: 'array', items: { type: 'string' } }, 'string[]'],
    [{ type: 'array', items: { type: 'string', const: 'a&b' } }, '("a&b")[]'],
    [{ type: 'array', items: { type: 'array', items: { type: 'string', enum: ['a', 'b'] } } }, '(("a" | "b")[])[]'],
    [
      { type: 'array', items: { type: 'object', additionalProperties: false, properties: { 'a|b': {} } } },
      '({\n    "a|b"?: JsonValue;\n  })[]'
    ],
    [
      {
        type: 'array',
        items: { type: 'object', additionalProperties: false, properties: { a: { description: '|' } } }
      },
      '({\n    /** | */\n    a?: JsonValue;\n  })[]'
    ],
    [{ type: 'object' }, 'Record<string, JsonValue>'],
    [{ type: 'object', properties: {}, additionalProperties: true }, 'Record<string, JsonValue>'],
    [{ type: 'object', additionalProperties: false }, 'Record<string, never>'],
    [
      { oneOf: [{ type: 'string' }, { type: 'array', items: { oneOf: [{ type: 'null' }, {}] } }] },
      'string | (null | JsonValue)[]'
    ],
    [{ oneOf: [{ oneOf: [{ type: 'string' }, { type: 'null' }] }, { type: 'number' }] }, 'string | null | number'],
    [{ description: 'Anything.', default: 1, title: 't', examples: [] }, 'JsonValue']
  ])('C016 %j', (schema, text) => {
    expect(typeOf(schema)).toBe(text)
    expect(typeOf(schema, true)).toBe(text)
  })

  const bad = [
    { $ref: '#/$defs/a', $defs: { a: { type: 'string' } } },
    { oneOf: [{ type: 'string' }] },
    { type: 'object', properties: 7 },
    { type: 'string', enum: [] },
    { type: 'string', enum: [1] },
    { anyOf: [{ type: 'string' }, { type: 'null' }] },
    {
      type: 'object',
      properties: { a: { type: 'array', items: { type: 'object', properties: { b: { type: 'text' } } } } }
    },
    { type: 'object', properties: {}, required: ['toString'] },
    7,
    null
  ]
  it.each(bad)('C016 outside the supported subset the whole position is unknown: %j', (schema) => {
    expect(typeOf(schema)).toBe('unknown')
  })

  it('C016 a hostile schema does not take the others with it', () => {
    const cycle: JsonSchema = { type: 'array' }
    cycle['items'] = cycle
    const thrower = Object.defineProperty({}, 'type', {
      enumerable: true,
      get() {
        throw new Error('no')
      }
    }) as JsonSchema
    const text = typescriptDeclarations([
      tool('a', { output: cycle }),
      tool('b', { output: thrower, foreign: true }),
      tool('c', {
        parameters: new Proxy(
          {},
          {
            ownKeys: () => {
              throw new Error('no')
            }
          }
        )
      }),
      tool('d', { output: { type: 'string' } })
    ])
    expect(text).toContain('  a: unknown;\n  b: unknown;\n  c: JsonValue;\n  d: string;\n')
    expect(text).toContain('  c: unknown;\n  d: Record<string, never>;\n')
  })

  it('no text of a schema leaves its line or its comment', () => {
    const text = typescriptDeclarations([
      tool('x', {
        description: '*/ } ``` /* \u2028\u2029 \ud800 **/',
        output: { type: 'object', properties: { '\n```\n': { type: 'string', const: '\n```\u2028\ud800' } } }
      })
    ])
    expect(text).toContain('  /** *\\/ } ``` /* \\ud800 **\\/ */\n')
    expect(text).toContain('    "\\n```\\n"?: "\\n```\u2028\\ud800";\n')
    expect(text).not.toMatch(/^\s*```/m)
    expect(new TextDecoder().decode(new TextEncoder().encode(text))).toBe(text)
  })

  it('C018 a chain of 5,000 oneOf', () => {
    let schema: JsonSchema = { type: 'string' }
    for (let level = 0; level < 5000; level += 1) schema = { oneOf: [schema, { type: 'null' }] }
    expect(typeOf(schema)).toBe(`string${' | null'.repeat(5000)}`)
  })

  it.each<[string, (inner: JsonSchema) => JsonSchema]>([
    ['arrays', (items) => ({ type: 'array', items })],
    ['objects', (a) => ({ type: 'object', properties: { a } })],
    ['arrays of unions', (inner) => ({ type: 'array', items: { oneOf: [inner, { type: 'null' }] } })]
  ])('C018 20,000 nested %s render, in a text that does not grow with the square of the depth', (_, wrap) => {
    const deep = (levels: number): number => {
      let schema: JsonSchema = { type: 'string' }
      for (let level = 0; level < levels; level += 1) schema = wrap(schema)
      return typeOf(schema).length
    }
    const length = deep(20_000)
    expect(length).toBeGreaterThan(40_000)
    expect(length).toBeLessThan(2.1 * deep(10_000))
  })
})
