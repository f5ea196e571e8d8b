import { describe, expect, it } from 'vitest'
import { pythonDeclarations } from '../../server/code-mode/sdk-python.ts'
import { typescriptDeclarations } from '../../server/code-mode/sdk-typescript.ts'
import type { JsonSchema } from '../../server/schema/spec.ts'
import { parsePython, typecheck } from './sdk-toolchains.ts'

const tool = (output: JsonSchema, name = 'x') => ({
  name,
  description: 'Do.',
  parameters: { type: 'object' },
  output,
  foreign: true
})

/** The declared types in front of the tools, and the type of the output. */
function typescriptOf(schema: JsonSchema): { named: string; output: string } {
  const text = typescriptDeclarations([tool(schema)])
  const named = text.slice(text.indexOf('\n\n') + 2, text.indexOf('interface ToolArgsMap')).trim()
  return { named, output: /interface ToolOutputMap \{\n(.*?)\n\}\n\n/s.exec(text)![1]! }
}

const pythonOf = (schema: JsonSchema): string => {
  const text = pythonDeclarations([tool(schema)])
  return text.slice(text.indexOf('toolName: str') + 13, text.indexOf('\n\ntools: Tools')).trim()
}

describe('schemas of any generator (code-mode.md §4.1)', () => {
  it.each<[JsonSchema, string, string]>([
    [{ anyOf: [{ type: 'string' }, { type: 'null' }] }, 'string | null', 'str | None'],
    [{ oneOf: [{ type: 'string' }] }, 'string', 'str'],
    [{ type: ['array', 'boolean'], items: { type: 'number' } }, 'number[] | boolean', 'list[float] | bool'],
    [{ type: 'string', nullable: true }, 'string | null', 'str | None'],
    [{ enum: ['a', 1, null, true] }, '"a" | 1 | null | true', 'Literal["a", 1, None, True]'],
    [{ type: 'string', enum: ['a', 1] }, '"a"', 'Literal["a"]'],
    [{ enum: [[1, []], 'a'] }, '"a" | [1, []]', 'Literal["a"] | list[Literal[1] | list[Any]]'],
    [
      { type: 'array', prefixItems: [{ type: 'string' }, { type: 'number' }], items: false, minItems: 1 },
      '[string, number?]',
      'list[str | float]'
    ],
    [
      { type: 'array', items: [{ type: 'string' }], additionalItems: { type: 'null' } },
      '[string?, ...null[]]',
      'list[str | None]'
    ],
    [
      { type: 'array', prefixItems: [{ anyOf: [{ type: 'string' }, { type: 'null' }] }] },
      '[(string | null)?, ...JsonValue[]]',
      'list[Any]'
    ],
    [
      { type: 'object', additionalProperties: { type: 'array', items: { type: 'integer' } } },
      '{ [key: string]: number[] }',
      'dict[str, list[int]]'
    ],
    [
      { type: 'object', additionalProperties: false, patternProperties: { '^x': {} } },
      'Record<string, JsonValue>',
      'dict[str, Any]'
    ],
    [{ type: 'text' }, 'unknown', 'Any'],
    [{ $ref: 'other.json#/a' }, 'unknown', 'Any'],
    [{ $ref: '#/$defs/missing', type: 'string' }, 'string', 'str'],
    [{ $ref: '#' }, 'XOutput', 'XOutput'],
    [{ type: 'array', items: { enum: [] } }, 'unknown[]', 'list[Any]'],
    [{ anyOf: [] }, 'unknown', 'Any'],
    [{ $ref: '#/$defs/a~1b%20c', $defs: { 'a/b c': { type: 'boolean' } } }, 'boolean', 'bool'],
    [{ $ref: '#here', $defs: { a: { $anchor: 'here', type: 'boolean' } } }, 'boolean', 'bool'],
    [{ allOf: [{}, { type: 'string' }] }, 'string', 'str'],
    [{ items: { type: 'string' } }, 'string[]', 'list[str]']
  ])('%j', (schema, typescript, python) => {
    expect(typescriptOf(schema).output.replace(/^ *\/\*\*.*\n/gm, '')).toBe(`  x: ${typescript};`)
    expect(pythonOf(schema)).toMatch(new RegExp(`-> ${python.replace(/[[\]|]/g, '\\$&')}:`))
  })

  it('what cannot be said is unknown in its own place only', () => {
    const schema: JsonSchema = {
      type: 'object',
      properties: { good: { type: 'string' }, bad: { type: 'text' } },
      additionalProperties: false
    }
    expect(typescriptOf(schema).output).toBe('  x: {\n    good?: string;\n    bad?: unknown;\n  };')
    expect(pythonOf(schema)).toContain('    good: NotRequired[str]\n    bad: NotRequired[Any]\n')
  })

  it('bounds and formats are told in the comment', () => {
    const schema: JsonSchema = {
      type: 'object',
      minProperties: 1,
      properties: {
        n: { type: 'integer', description: 'How many.', minimum: 1, exclusiveMaximum: 10 },
        s: { anyOf: [{ type: 'string', format: 'uri', pattern: '^"*/' }, { type: 'null' }] },
        l: { type: 'array', items: { type: 'string', maxLength: 3 }, uniqueItems: true, not: {} },
        long: { type: 'string', pattern: 'x'.repeat(1000) }
      },
      additionalProperties: false
    }
    expect(typescriptOf(schema).output).toBe(`  /** minimum members 1 */
  x: {
    /** How many. (minimum 1, less than 10) */
    n?: number;
    /** format "uri", pattern "^\\"*\\/" */
    s?: string | null;
    /** unique items, further rules (not), each item: maximum length 3 */
    l?: string[];
    /** pattern as the schema says */
    long?: string;
  };`)
    expect(pythonOf(schema)).toContain('    # How many. (minimum 1, less than 10)\n    n: NotRequired[int]\n')
    expect(pythonOf(schema)).toContain('"""Do. (result: minimum members 1)"""')
  })

  it('a part that is used once is written in its place, a shared one once and by name', () => {
    const point = {
      type: 'object',
      description: 'A point.',
      properties: { x: { type: 'number' } },
      additionalProperties: false
    }
    const once: JsonSchema = {
      type: 'object',
      properties: { p: { $ref: '#/$defs/p' } },
      additionalProperties: false,
      $defs: { p: point }
    }
    expect(typescriptOf(once)).toEqual({
      named: '',
      output: '  x: {\n    /** A point. */\n    p?: {\n      x?: number;\n    };\n  };'
    })
    const twice: JsonSchema = {
      ...once,
      properties: { p: { $ref: '#/$defs/p' }, q: { $ref: '#/$defs/p', description: 'Q.' } }
    }
    expect(typescriptOf(twice)).toEqual({
      named: '/** A point. */\ntype XOutputP = {\n  x?: number;\n}',
      output: '  x: {\n    p?: XOutputP;\n    /** Q. */\n    q?: XOutputP;\n  };'
    })
    expect(pythonOf(twice)).toContain(
      '# A point.\nclass XOutputP(TypedDict):\n    x: NotRequired[float]\n\nclass XOutput(TypedDict):\n    p: NotRequired[XOutputP]'
    )
  })

  it('a part that is used where it stands and by reference is one type', () => {
    const schema: JsonSchema = {
      type: 'object',
      properties: { first: { type: 'array', items: { type: 'number' } }, second: { $ref: '#/properties/first' } },
      additionalProperties: false
    }
    expect(typescriptOf(schema)).toEqual({
      named: 'type XOutputFirst = number[]',
      output: '  x: {\n    first?: XOutputFirst;\n    second?: XOutputFirst;\n  };'
    })
  })

  it('recursive types', () => {
    const tree: JsonSchema = {
      type: 'object',
      properties: { kids: { type: 'array', items: { $ref: '#' } } },
      required: ['kids'],
      additionalProperties: false
    }
    expect(typescriptOf(tree)).toEqual({ named: 'type XOutput = {\n  kids: XOutput[];\n}', output: '  x: XOutput;' })
    expect(pythonOf(tree)).toContain('class XOutput(TypedDict):\n    kids: list[XOutput]\n\nclass Tools')
    const list: JsonSchema = {
      $ref: '#/$defs/l',
      $defs: { l: { anyOf: [{ type: 'array', items: { $ref: '#/$defs/l' } }, { type: 'string' }] } }
    }
    expect(typescriptOf(list)).toEqual({ named: 'type XOutputL = XOutputL[] | string', output: '  x: XOutputL;' })
    expect(pythonOf(list)).toContain('XOutputL = list[XOutputL] | str\n\nclass Tools')
  })

  it('objects of an intersection: joined in TypeScript, one class with bases in Python', () => {
    const schema: JsonSchema = {
      $defs: {
        base: { type: 'object', properties: { id: { type: 'string' } }, required: ['id'], additionalProperties: false }
      },
      type: 'object',
      properties: {
        one: { $ref: '#/$defs/base' },
        two: {
          allOf: [
            { $ref: '#/$defs/base' },
            { properties: { n: { type: 'integer' } } },
            { properties: { n: {}, m: {} }, required: ['n'] }
          ]
        }
      },
      additionalProperties: false
    }
    expect(typescriptOf(schema).output).toContain(
      '    two?: XOutputBase & {\n      n?: number;\n    } & Record<string, JsonValue> & {\n      n: JsonValue;\n'
    )
    expect(pythonOf(schema)).toContain(
      'class XOutputTwo(XOutputBase):\n    n: int\n    m: NotRequired[Any]\n    # Further keys are allowed.\n'
    )
  })

  it('names of two tools do not clash, whatever the tools and definitions are called', () => {
    const schema = (): JsonSchema => ({
      $defs: { '': { anyOf: [{ type: 'array', items: { $ref: '#/$defs/' } }, { type: 'null' }] } },
      $ref: '#/$defs/'
    })
    const tools = ['a-b', 'a_b', 'tool', 'args_map', '9', 'é'].map((name) => tool(schema(), name))
    const text = typescriptDeclarations(tools)
    expect(new Set(text.match(/^type \w+ =/gm))).toHaveProperty('size', tools.length + 2)
    expect([...typecheck([text])]).toEqual([])
    expect(parsePython([pythonDeclarations(tools)])).toEqual([])
  })
})

describe('hostile references', () => {
  const chain = (links: number, link: (next: JsonSchema) => JsonSchema): JsonSchema => {
    const $defs: Record<string, JsonSchema> = {
      [`d${links}`]: { type: 'string', maxLength: 1, enum: ['x'.repeat(300)] }
    }
    for (let index = 0; index < links; index += 1) $defs[`d${index}`] = link({ $ref: `#/$defs/d${index + 1}` })
    return { $ref: '#/$defs/d0', $defs }
  }

  it.each<[string, (next: JsonSchema) => JsonSchema]>([
    ['doubled members', (next) => ({ type: 'object', properties: { a: next, b: next } })],
    ['doubled branches', (next) => ({ anyOf: [next, next] })],
    ['doubled parts', (next) => ({ allOf: [next, next] })],
    ['parts with members', (next) => ({ allOf: [next, { properties: { a: next } }] })],
    ['one after the other', (next) => next]
  ])('a chain of 2,000 %s makes a text that grows with its length', (_, link) => {
    for (const declarations of [typescriptDeclarations, pythonDeclarations]) {
      const length = (links: number): number => declarations([tool(chain(links, link))]).length
      expect(length(2000)).toBeLessThan(2.5 * length(1000))
      expect(length(2000)).toBeLessThan(1_000_000)
    }
  })

  it(
    '130,000 parts, branches, members or values: more than one call can take as arguments',
    { timeout: 60_000 },
    () => {
      const many = Array.from({ length: 130_000 }, () => ({ minimum: 1 }))
      const schemas: JsonSchema[] = [
        { allOf: many },
        { anyOf: many },
        { type: 'array', prefixItems: many },
        { enum: many.map((_, index) => index) },
        { type: 'object', required: many.map((_, index) => `m${index}`) }
      ]
      for (const schema of schemas) {
        expect(typescriptDeclarations([tool(schema)])).not.toContain('x: unknown')
        expect(pythonDeclarations([tool(schema)])).toContain('async def x(')
      }
    }
  )

  const knots: [string, JsonSchema][] = [
    ['itself', { $ref: '#' }],
    ['each other', { $ref: '#/$defs/a', $defs: { a: { $ref: '#/$defs/b' }, b: { $ref: '#/$defs/a' } } }],
    ['itself in a union', { anyOf: [{ $ref: '#' }, { type: 'string' }, { allOf: [{ $ref: '#' }] }] }],
    ['itself in an intersection', { type: 'object', properties: { a: { $ref: '#' } }, allOf: [{ $ref: '#' }] }],
    [
      'each other in parts',
      {
        $ref: '#/$defs/a',
        $defs: {
          a: { allOf: [{ $ref: '#/$defs/b' }], properties: { x: { $ref: '#/$defs/b' } } },
          b: { anyOf: [{ $ref: '#/$defs/a' }, { items: { $ref: '#/$defs/a' } }] }
        }
      }
    ],
    ['a map of itself', { type: 'object', additionalProperties: { $ref: '#' } }],
    ['a tuple of itself', { type: 'array', prefixItems: [{ $ref: '#' }], items: { $ref: '#' } }],
    [
      'a base that holds its heir',
      {
        $ref: '#/$defs/a',
        $defs: {
          a: { type: 'object', properties: { b: { $ref: '#/$defs/b' } } },
          b: { allOf: [{ $ref: '#/$defs/a' }], properties: { c: {}, b: { $ref: '#/$defs/b' } } }
        }
      }
    ]
  ]

  it('schemas whose references lead back to them compile and parse', () => {
    const tools = knots.map(([, schema]) => [tool(schema)])
    const complaints = typecheck(tools.map(typescriptDeclarations))
    expect(knots.flatMap(([name], index) => (complaints.has(index) ? [name, complaints.get(index)] : []))).toEqual([])
    expect(parsePython(tools.map(pythonDeclarations))).toEqual([])
  })
})
