import { describe, expect, expectTypeOf, it, vi } from 'vitest'
import { text } from '../../server/authoring/content.ts'
import { defineTool } from '../../server/authoring/define-tool.ts'
import type { JsonValue } from '../../server/json/lossless.ts'
import type { RunContext } from '../../server/pipeline/execution.ts'
import { ScopeTree } from '../../server/scopes/scope-tree.ts'
import type { ParameterMap } from '../../server/schema/spec.ts'
import { Registry } from '../../server/tools/registry.ts'

const exec = {} as RunContext
const output = { schema: { type: 'string' }, render: (_args: unknown, value: string) => text(value) } as const

const withParameters = (parameters: unknown) => () =>
  defineTool({ name: 'probe', description: '', parameters: parameters as ParameterMap, output, execute: () => '' })

const greet = defineTool({
  name: 'greet',
  description: 'Greet someone by name.',
  parameters: { name: { type: 'string', required: true }, times: { type: 'integer', default: 1 } },
  output,
  execute: ({ name }) => `Hello, ${name}!`,
  isConcurrencySafe: ({ name }) => name !== 'alone',
  presentCall: ({ name }) => ({ card: 'generic', title: name }),
  presentResult: ({ name }, { isError }) => ({ card: 'generic', title: `${name} ${isError}` })
})

describe('parameters', () => {
  it('C020 compile to an open object with the required names in order', () => {
    const { parameters } = withParameters({
      path: { type: 'string', description: 'Where.', required: true },
      limit: { type: 'number', default: 25 },
      tags: { type: 'array', items: { type: 'string' } }
    })()
    expect(parameters).toEqual({
      type: 'object',
      properties: {
        path: { type: 'string', description: 'Where.' },
        limit: { type: 'number', default: 25 },
        tags: { type: 'array', items: { type: 'string' } }
      },
      required: ['path']
    })
    expect(withParameters({})().parameters).toEqual({ type: 'object', properties: {} })
    expect(
      withParameters({ a: { type: 'array', items: { type: 'json' } }, b: { type: 'json', title: 'B' } })().parameters
    ).toEqual({
      type: 'object',
      properties: { a: { type: 'array', items: {} }, b: { title: 'B' } }
    })
  })

  it.each<[string, () => unknown]>([
    ['an object without additionalProperties', () => ({ a: { type: 'object' } })],
    ['required: false', () => ({ a: { type: 'string', required: false } })],
    ['required on array items', () => ({ a: { type: 'array', items: { type: 'string', required: true } } })],
    ['required on a oneOf branch', () => ({ a: { oneOf: [{ type: 'string', required: true }, { type: 'null' }] } })],
    ['an unknown key', () => ({ a: { type: 'string', pattern: 'x' } })],
    ['type beside oneOf', () => ({ a: { type: 'string', oneOf: [{ type: 'string' }, { type: 'null' }] } })],
    ['an unknown type', () => ({ a: { type: 'weird' } })],
    ['an empty node', () => ({ a: {} })],
    ['null', () => ({ a: null })],
    ['an enum that is a string', () => ({ a: { type: 'string', enum: 'abc' } })],
    [
      'a cycle',
      () => {
        const node: Record<string, unknown> = { type: 'array' }
        node.items = node
        return { a: node }
      }
    ]
  ])('C021 with %s throw UNSUPPORTED_SCHEMA at definition [core-5.1.specs]', (_what, parameters) => {
    expect(withParameters(parameters())).toThrow(expect.objectContaining({ code: 'UNSUPPORTED_SCHEMA' }))
  })

  it('a bad output spec throws at definition too [core-5.1.specs]', () => {
    const bad = { ...output, schema: { type: 'object' } } as never
    expect(() => defineTool({ name: 'x', description: '', parameters: {}, output: bad, execute: () => '' })).toThrow(
      expect.objectContaining({ code: 'UNSUPPORTED_SCHEMA' })
    )
  })
})

describe('validation before the body (core.md §5.2)', () => {
  it('throws ToolArgsError with all violations, and does not enter the body [core-5.2.throws] [core-30.tool-args]', () => {
    const execute = vi.fn(() => '')
    const need = defineTool({
      name: 'need',
      description: '',
      parameters: { path: { type: 'string', required: true } },
      output,
      execute
    })
    expect(() => need.execute({}, exec)).toThrow(
      expect.objectContaining({
        name: 'ToolArgsError',
        code: 'INVALID_ARGS',
        violations: [expect.stringContaining('path')]
      })
    )
    expect(() => need.execute('not json', exec)).toThrow('arguments')
    expect(execute).not.toHaveBeenCalled()
  })

  it('C023 names the places of the violations, in order', () => {
    const violations = (parameters: ParameterMap, args: JsonValue): string[] => {
      try {
        withParameters(parameters)().execute(args, exec)
        return []
      } catch (error) {
        return (error as { violations: string[] }).violations
      }
    }
    const host = {
      type: 'object',
      additionalProperties: true,
      properties: { host: { type: 'string', required: true } }
    } as const
    expect(
      violations({ config: host, bag: { type: 'object', additionalProperties: true } }, { config: { port: 9 }, bag: 5 })
    ).toEqual([expect.stringContaining('config.host'), expect.stringContaining('bag')])
    expect(violations({ servers: { type: 'array', items: host } }, { servers: [{ host: 'a' }, {}] })[0]).toContain(
      'servers[1].host'
    )
    expect(violations({ tags: { type: 'array', items: { type: 'string' } } }, { tags: ['a', 2] })[0]).toContain(
      'tags[1]'
    )
  })

  it('C025 leaves the root open, closed objects closed, and injects no default [core-5.7]', async () => {
    const seen: unknown[] = []
    const tool = defineTool({
      name: 'open',
      description: '',
      parameters: {
        limit: { type: 'number', default: 25 },
        closed: { type: 'object', additionalProperties: false, properties: { a: { type: 'string' } } },
        none: { type: 'object', additionalProperties: false }
      },
      output,
      execute: (args) => {
        seen.push(args)
        return ''
      }
    })
    tool.execute({ extra: 1, closed: { a: 'x' }, none: {} }, exec)
    expect(seen).toEqual([{ extra: 1, closed: { a: 'x' }, none: {} }])
    expect(() => tool.execute({ closed: { b: 1 } }, exec)).toThrow('closed.b')
    expect(() => tool.execute({ none: { b: 1 } }, exec)).toThrow('none.b')
  })

  it('tells the violations without running anything (api.md §2)', () => {
    expect(greet.validateArguments?.({ times: 1 })).toEqual([expect.stringContaining('name')])
    expect(greet.validateArguments?.({ name: 'Ada' })).toEqual([])
  })

  it('hands valid arguments and the context to the body', async () => {
    expect(await greet.execute({ name: 'Ada' }, exec)).toBe('Hello, Ada!')
    const tool = defineTool({
      name: 'ctx',
      description: '',
      parameters: {},
      output,
      execute: async (_args, given) => String(given === exec)
    })
    expect(await tool.execute({}, exec)).toBe('true')
  })
})

describe('the other wrappers', () => {
  it('isConcurrencySafe answers false for invalid arguments without asking the author (core.md §5.3) [core-5.3]', () => {
    const ask = vi.fn(() => true)
    const tool = defineTool({
      name: 'x',
      description: '',
      parameters: { a: { type: 'string', required: true } },
      output,
      execute: () => '',
      isConcurrencySafe: ask
    })
    expect(tool.isConcurrencySafe?.({})).toBe(false)
    expect(ask).not.toHaveBeenCalled()
    expect(tool.isConcurrencySafe?.({ a: '' })).toBe(true)
    expect(greet.isConcurrencySafe?.({ name: 'alone' })).toBe(false)
  })

  it('C027 presenters answer undefined for invalid arguments, the card for valid ones, and keep their own throws (core.md §5.4) [core-5.4]', () => {
    const settled = { content: [], isError: true }
    expect(greet.presentCall?.({ name: 7 })).toBeUndefined()
    expect(greet.presentResult?.('x', settled)).toBeUndefined()
    expect(greet.presentCall?.({ name: 'Ada' })).toEqual({ card: 'generic', title: 'Ada' })
    expect(greet.presentResult?.({ name: 'Ada' }, settled)).toEqual({ card: 'generic', title: 'Ada true' })
    const tool = defineTool({
      name: 'x',
      description: '',
      parameters: {},
      output,
      execute: () => '',
      presentCall: () => {
        throw new Error('mine')
      }
    })
    expect(() => tool.presentCall?.({})).toThrow('mine')
  })

  it('finalizeContent sees every outcome as it is (core.md §5.5) [core-5.5]', () => {
    const result = { isError: true, error: { message: 'm' }, content: [] } as const
    const finalizeContent = vi.fn(() => text('final'))
    const tool = defineTool({
      name: 'x',
      description: '',
      parameters: { a: { type: 'string', required: true } },
      output,
      execute: () => '',
      finalizeContent
    })
    expect(tool.finalizeContent?.(exec, result)).toEqual(text('final'))
    expect(finalizeContent).toHaveBeenCalledWith(exec, result)
  })

  it('projects the value with the arguments', () => {
    const tool = defineTool({
      name: 'x',
      description: '',
      parameters: { a: { type: 'string', required: true } },
      output: {
        schema: { type: 'integer' },
        render: ({ a }, value) => text(`${a}${value}`),
        presentationMeta: ({ a }, value) => ({ a, value })
      },
      execute: () => 1
    })
    expect(tool.output.render({ a: 'n' }, 1)).toEqual(text('n1'))
    expect(tool.output.presentationMeta?.({ a: 'n' }, 1)).toEqual({ a: 'n', value: 1 })
  })
})

it.each([0, -5, Infinity, NaN, 2 ** 31])(
  'C028 refuses the timeout %s at definition with a plain Error [core-5.1.timeout]',
  (timeoutMs) => {
    const define = () =>
      defineTool({ name: 'x', description: '', parameters: {}, output, execute: () => '', timeoutMs })
    expect(define).toThrow(expect.objectContaining({ name: 'Error', message: expect.stringContaining('timeoutMs') }))
  }
)

it('C028 keeps a timeout on the definition, out of the schemas [core-18.7.hidden]', () => {
  const tool = defineTool({
    name: 'x',
    description: '',
    parameters: {},
    output,
    execute: () => '',
    timeoutMs: 30_000,
    idempotent: true
  })
  expect(tool).toMatchObject({ timeoutMs: 30_000, idempotent: true })
  const tree = new ScopeTree()
  const registry = new Registry({ tree })
  registry.register(tree.global, tool)
  expect(registry.lookup('x')).toMatchObject({ timeoutMs: 30_000, idempotent: true })
  expect(registry.schemas()).toEqual([{ name: 'x', description: '', parameters: { type: 'object', properties: {} } }])
})

it('has no member that the author did not give', () => {
  const tool = defineTool({ name: 'x', description: '', parameters: {}, output, execute: () => '' })
  expect(Object.keys(tool).sort()).toEqual([
    'description',
    'execute',
    'name',
    'output',
    'parameters',
    'validateArguments'
  ])
  expect('presentationMeta' in tool.output).toBe(false)
})

it('keeps `this` of the object that the author wrote', () => {
  class Counted {
    name = 'x'
    description = ''
    parameters = {}
    output = output
    count = 0
    execute() {
      this.count += 1
      return String(this.count)
    }
  }
  expect(defineTool(new Counted()).execute({}, exec)).toBe('1')
})

it('types arguments and value by their specs', () => {
  defineTool({
    name: 'typed',
    description: '',
    parameters: { kind: { type: 'string', enum: ['a', 'b'], required: true }, n: { type: 'integer' } },
    output: {
      schema: { type: 'array', items: { type: 'number' } },
      render: (_args, value) => text(value.map((n) => n.toFixed(1)).join())
    },
    execute(args) {
      expectTypeOf(args.kind).toEqualTypeOf<'a' | 'b'>()
      expectTypeOf(args.n).toEqualTypeOf<number | undefined>()
      return [1]
    }
  })
  // @ts-expect-error: the value is not what the schema says
  defineTool({ name: 'typed', description: '', parameters: {}, output, execute: () => 1 })
})
