import { describe, expect, it } from 'vitest'
import type { OutputContract, ToolDefinition } from '../../server/tools/definition.ts'
import { PipelineFixture, codeOf, messageIn } from '../helpers/pipeline-fixture.ts'

const tool = (
  execute: () => unknown,
  output: Partial<OutputContract> = {},
  more: Partial<ToolDefinition> = {}
): ToolDefinition => ({
  name: 'tool',
  description: 'Is under test.',
  parameters: { type: 'object' },
  output: { schema: { type: 'string' }, render: () => [{ type: 'text', text: 'rendered' }], ...output },
  execute,
  ...more
})

const run = async (definition: ToolDefinition, more = {}) => {
  const fixture = new PipelineFixture()
  fixture.register(definition)
  let seen: unknown
  fixture.hook('postExecute', (_exec, result, next) => ((seen = result), next()))
  return { result: await fixture.call('tool', {}, more), seen, fixture }
}

const rejected = () => Promise.reject(new Error('nobody awaits this'))

describe('the output contract (core.md §12.5)', () => {
  it.each<[string, ToolDefinition, string]>([
    ['C068a a value that is a function [core-12.5.value]', tool(() => () => 1), 'value'],
    ['undefined', tool(() => undefined), 'value'],
    ['C068b a number for a string [core-12.5.schema] [core-30.tool-output]', tool(() => 1), '"value"'],
    [
      'a throwing getter [core-12.5.value]',
      tool(
        () => ({
          get a() {
            throw new Error('unreadable')
          }
        }),
        { schema: {} }
      ),
      'snapshot'
    ],
    [
      'C068c a render that throws [core-12.5.projectors]',
      tool(() => 'x', {
        render: () => {
          throw new Error('no paint')
        }
      }),
      'render'
    ],
    [
      'a render that returns a promise [core-12.5.projectors]',
      tool(() => 'x', { render: rejected as never }),
      'render'
    ],
    ['a render that returns no array [core-12.5.blocks]', tool(() => 'x', { render: () => 'x' as never }), 'render'],
    ['a render that returns text', tool(() => 'x', { render: () => ['x'] as never }), 'render'],
    ['a render that returns null', tool(() => 'x', { render: () => [null] as never }), 'render'],
    ['a render of blocks in blocks', tool(() => 'x', { render: () => [[]] as never }), 'render'],
    [
      'a render of blocks without a type [core-12.5.blocks]',
      tool(() => 'x', { render: () => [{ type: 1 }] as never }),
      'render'
    ],
    [
      'C068d presentationMeta that throws [core-12.5.projectors]',
      tool(() => 'x', {
        presentationMeta: () => {
          throw new Error('no')
        }
      }),
      'presentationMeta'
    ],
    [
      'C068e metadata with a function [core-12.5.projectors]',
      tool(() => 'x', { presentationMeta: () => ({ f: () => 1 }) as never }),
      'presentationMeta'
    ],
    [
      'metadata undefined [core-12.5.meta]',
      tool(() => 'x', { presentationMeta: () => undefined as never }),
      'presentationMeta'
    ],
    ['metadata that is a promise', tool(() => 'x', { presentationMeta: rejected as never }), 'presentationMeta'],
    [
      'a validator that finds something',
      tool(() => 'x', {}, { validateOutput: () => ['"value.a" is odd'] }),
      '"value.a" is odd'
    ],
    ['a validator that finds something later', tool(() => 'x', {}, { validateOutput: async () => ['late'] }), 'late'],
    [
      'a validator that throws',
      tool(
        () => 'x',
        {},
        {
          validateOutput: () => {
            throw new Error('cannot')
          }
        }
      ),
      'cannot'
    ]
  ])('%s is INVALID_TOOL_OUTPUT, which post-execute sees', async (_what, definition, named) => {
    const { result, seen } = await run(definition)
    expect(result).toMatchObject({
      isError: true,
      error: { info: { name: 'ToolOutputError', code: 'INVALID_TOOL_OUTPUT' } }
    })
    expect(messageIn(result)).toContain(named)
    expect(Object.keys(result)).toEqual(['isError', 'error', 'content'])
    expect(seen).toEqual(result)
  })

  it('says of each violation where it is [core-12.5.schema]', async () => {
    const schema = {
      type: 'object',
      properties: { file: { type: 'string' }, line: { type: 'integer' } },
      required: ['line'],
      additionalProperties: false
    }
    const { result } = await run(tool(() => ({ file: 1 }), { schema }))
    expect(messageIn(result)).toMatch(/value\.line.*; .*value\.file/)
  })

  it('the value is a detached frozen copy, which render sees [core-12.5.frozen] [core-12.5.meta] [core-1.meta-null]', async () => {
    const own = { a: { b: 1 } }
    const seen: unknown[] = []
    const definition = tool(() => own, {
      schema: {},
      render: (args, value) => (seen.push(args, value), []),
      presentationMeta: () => null
    })
    const { result } = await run(definition)
    expect(result).toStrictEqual({ isError: false, value: { a: { b: 1 } }, content: [], meta: null })
    expect((result as any).value).not.toBe(own)
    expect(Object.isFrozen(own)).toBe(false)
    expect(Object.isFrozen((result as any).value.a)).toBe(true)
    expect(seen).toEqual([{}, { a: { b: 1 } }])
    expect(seen.every(Object.isFrozen)).toBe(true)
  })

  it('metadata and content are detached and frozen [core-12.5.frozen]', async () => {
    const meta = { a: { b: 1 } }
    const block = { type: 'text', text: 'x' }
    const { result } = await run(tool(() => 'x', { render: () => [block], presentationMeta: () => meta }))
    expect(result).toMatchObject({ meta: { a: { b: 1 } }, content: [block] })
    expect(Object.isFrozen(meta) || Object.isFrozen(meta.a) || Object.isFrozen(block)).toBe(false)
    expect(Object.isFrozen((result.meta as any).a) && Object.isFrozen(result.content[0])).toBe(true)
  })

  it('a nested call has no metadata, and a throw of it is no failure then [core-12.5.nested]', async () => {
    const definition = tool(() => 'x', {
      presentationMeta: () => {
        throw new Error('no')
      }
    })
    const { result } = await run(definition, { parent: Symbol('outer') })
    expect(Object.keys(result)).toEqual(['isError', 'value', 'content'])
  })

  it('a validator stands in for the schema', async () => {
    const { result } = await run(tool(() => 1, { schema: { type: 'string' } }, { validateOutput: () => [] }))
    expect(result).toMatchObject({ value: 1 })
  })

  it('values nest deeper than a call stack', async () => {
    let deep: unknown = 0
    for (let level = 0; level < 5_000; level += 1) deep = [deep]
    const { result } = await run(tool(() => deep, { schema: {} }))
    expect(codeOf(result)).toBeUndefined()
  })
})
