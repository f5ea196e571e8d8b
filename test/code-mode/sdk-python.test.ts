import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { pythonDeclarations } from '../../server/code-mode/sdk-python.ts'
import type { SdkTool } from '../../server/code-mode/sdk-tool.ts'
import type { JsonSchema } from '../../server/schema/spec.ts'
import { parsePython } from './sdk-toolchains.ts'

const tool = (name: string, more: Partial<SdkTool> = {}): SdkTool => ({
  name,
  description: '',
  parameters: { type: 'object' },
  output: { type: 'string' },
  ...more
})

const object = (properties: JsonSchema, more: JsonSchema = {}): JsonSchema => ({ type: 'object', properties, ...more })

const typeOf = (output: JsonSchema, foreign = false): string =>
  /async def x\(self, args: .*?\) -> (.*?): ?\.\.\./s.exec(pythonDeclarations([tool('x', { output, foreign })]))![1]!

const example = [
  tool('bash', {
    description: 'Run "it" \\',
    parameters: object({ command: { type: 'string', description: 'What\nto run.' } }, { required: ['command'] })
  }),
  tool('my-tool', {
    description: 'Odd.',
    parameters: object({ q: { type: 'integer' } }, { additionalProperties: false })
  }),
  tool('class', {
    parameters: object({ v: object({ w: { type: 'null' } }) }, { required: ['v'] }),
    output: { type: 'array' }
  }),
  tool('empty', {
    parameters: { type: 'object', additionalProperties: false },
    output: { oneOf: [{ type: 'boolean' }, { type: 'number' }] }
  })
]

const golden = `from typing import Any, NotRequired, Protocol, TypedDict

class ToolCallError(Exception):
    toolName: str

class BashArgs(TypedDict):
    # What to run.
    command: str
    # Further keys are allowed.

class ClassArgsV(TypedDict):
    w: NotRequired[None]
    # Further keys are allowed.

class ClassArgs(TypedDict):
    v: ClassArgsV
    # Further keys are allowed.

class EmptyArgs(TypedDict):
    pass

class MyToolArgs(TypedDict):
    q: NotRequired[int]

class Tools(Protocol):
    async def bash(self, args: BashArgs) -> str:
        """Run \\"it\\" \\\\"""
    # tools["class"](args: ClassArgs) -> list[Any]
    async def empty(self, args: EmptyArgs) -> bool | float: ...
    # tools["my-tool"](args: MyToolArgs) -> str
    #   Odd.

tools: Tools`

describe('the Python text (code-mode.md §4.4)', () => {
  it('C019 golden, in any order, without the transport', () => {
    expect(pythonDeclarations(example)).toBe(golden)
    fc.assert(
      fc.property(fc.shuffledSubarray([...example, tool('run_code')], { minLength: 5 }), (shuffled) => {
        expect(pythonDeclarations(shuffled)).toBe(golden)
      })
    )
    expect(parsePython([golden])).toEqual([])
  })

  it('a body of comments alone begins with pass', () => {
    const texts = [
      pythonDeclarations([]),
      pythonDeclarations([tool('my-tool', { description: 'x' }), tool('_a'), tool('if')])
    ]
    expect(texts[0]).toContain('class Tools(Protocol):\n    pass\n\ntools: Tools')
    expect(texts[1]).toContain('class Tools(Protocol):\n    pass\n    # tools["_a"]')
    expect(parsePython(texts)).toEqual([])
  })

  it.each<[JsonSchema, string]>([
    [{ type: 'number' }, 'float'],
    [{ type: 'null' }, 'None'],
    [{ type: 'boolean', const: true }, 'Literal[True]'],
    [{ type: 'string', enum: ['a', '"\n\\'] }, 'Literal["a", "\\"\\n\\\\"]'],
    [{ type: 'integer', enum: [1, 1e21, -(2 ** 60)] }, 'Literal[1, 1000000000000000000000, -1152921504606846976]'],
    [{ type: 'number', const: 2.5e-7 }, 'Literal[2.5e-7]'],
    [{ type: 'array' }, 'list[Any]'],
    [{ type: 'array', items: { oneOf: [{ type: 'string' }, {}] } }, 'list[str | Any]'],
    [{ type: 'object' }, 'dict[str, Any]'],
    [{}, 'Any'],
    [object({ 'my-key': {} }), 'dict[str, Any]'],
    [object({ a: {}, __x: {} }), 'dict[str, Any]'],
    [object({ class: {} }), 'dict[str, Any]'],
    [object({ __debug__: {} }), 'dict[str, Any]'],
    [object({ ﬁ: {} }), 'dict[str, Any]'],
    [object({ __x__: {}, match: {}, _: {}, é: {} }), 'XOutput'],
    [{ type: 'string', pattern: 'a' }, 'Any']
  ])('%j', (schema, text) => {
    expect(typeOf(schema)).toBe(text)
  })

  it('C018 20,000 nested arrays: 180 open lists, 179 inside a field', () => {
    let schema: JsonSchema = { type: 'string' }
    for (let level = 0; level < 20_000; level += 1) schema = { type: 'array', items: schema }
    expect(typeOf(schema)).toBe(`${'list['.repeat(180)}Any${']'.repeat(180)}`)
    const text = pythonDeclarations([tool('x', { output: object({ a: schema }) })])
    expect(text).toContain(`    a: NotRequired[${'list['.repeat(179)}Any${']'.repeat(179)}]\n`)
    expect(parsePython([text, pythonDeclarations([tool('x', { output: schema })])])).toEqual([])
  })

  it('a union of 5,000 keeps its branches and parses', () => {
    let nested: JsonSchema = { type: 'string' }
    for (let level = 0; level < 5000; level += 1) nested = { oneOf: [nested, { type: 'null' }] }
    const texts = [
      nested,
      { type: 'array', items: { oneOf: Array.from({ length: 5000 }, () => ({ type: 'null' })) } }
    ].map((output) => pythonDeclarations([tool('x', { output })]))
    for (const text of texts) expect(text.match(/None/g)).toHaveLength(5000)
    expect(parsePython(texts)).toEqual([])
  })

  it('unions and lists in each other parse at any depth', () => {
    let schema: JsonSchema = { type: 'string' }
    for (let level = 0; level < 300; level += 1) {
      schema = { type: 'array', items: { oneOf: [schema, ...Array.from({ length: 30 }, () => ({ type: 'null' }))] } }
    }
    expect(parsePython([pythonDeclarations([tool('x', { output: schema })])])).toEqual([])
  })

  it('names of classes: numbers for clashes, branches and fields; cut at 120 units; NFKC', () => {
    const inner = object({ a: {} }, { additionalProperties: false })
    const text = pythonDeclarations([
      tool('a_b', { parameters: inner }),
      tool('aB', { parameters: inner, output: { oneOf: [inner, { type: 'array', items: inner }] } }),
      tool('3d', { parameters: inner }),
      tool('--', { parameters: object({ x: inner, X: inner }) }),
      tool('ﬁ-ß', { parameters: inner }),
      tool('𝒜'.repeat(70), { parameters: inner }),
      tool('𠀀'.repeat(70), { parameters: inner }),
      tool('𠀀'.repeat(71), { parameters: inner })
    ])
    const classes = [...text.matchAll(/^class (.*)\(TypedDict\):$/gm)].map((match) => match[1])
    expect(classes).toEqual([
      'ToolArgsX',
      'ToolArgsX2',
      'ToolArgs',
      'Tool3dArgs',
      'ABArgs',
      'ABOutput1',
      'ABOutput2',
      'ABArgs2',
      `${'A'.repeat(70)}Args`,
      '𠀀'.repeat(60),
      `${'𠀀'.repeat(60)}2`,
      'FISSArgs'
    ])
    expect(parsePython([text])).toEqual([])
  })

  it('descriptions cannot leave their line, their comment or their docstring', () => {
    const nasty = [
      'ends in "',
      'ends in \\',
      '"""',
      '\\"""',
      'a\rb\nc\u2028d',
      '\u0000\u001b\u007f\u0085',
      '\ud800',
      "'''",
      ' \t\n '
    ]
    const texts = nasty.map((description) =>
      pythonDeclarations([
        tool('x', { description, parameters: object({ a: { description } }) }),
        tool('my-tool', { description, output: { type: 'string', const: description } }),
        tool(description, { description })
      ])
    )
    expect(parsePython(texts)).toEqual([])
    expect(texts[5]).toContain('        """\\x00\\x1b\\x7f\\x85"""\n')
    expect(texts[6]).toContain('    # \\ud800\n')
    expect(texts[8]).toContain('async def x(self, args: XArgs) -> str: ...\n')
    for (const text of texts) expect(new TextDecoder().decode(new TextEncoder().encode(text))).toBe(text)
  })
})
