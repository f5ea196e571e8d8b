import { describe, expect, it } from 'vitest'
import type { ToolDefinition } from '../../server/tools/definition.ts'
import { snapshotDefinition } from '../../server/tools/snapshot-definition.ts'
import { bareTool } from '../helpers/bare-tool.ts'

const broken = (members: Record<string, unknown>) => () => snapshotDefinition({ ...bareTool('probe'), ...members })
const output = (members: Record<string, unknown>) => ({ output: { ...bareTool('probe').output, ...members } })

describe('C029 rejections (core.md §6.1, §6.2, §18.6)', () => {
  it.each<[string, Record<string, unknown>, string]>([
    ['no output [core-6.1.1]', { output: undefined }, 'output'],
    ['output null [core-6.1.1]', { output: null }, 'output'],
    ['no render [core-6.1.1]', output({ render: undefined }), 'output.render'],
    [
      'presentationMeta not a function [core-6.1.1] [core-30.type-error]',
      output({ presentationMeta: {} }),
      'output.presentationMeta'
    ],
    ['timeoutMs 0 [core-6.1.3] [core-30.type-error]', { timeoutMs: 0 }, 'timeoutMs'],
    ['timeoutMs negative [core-6.1.3]', { timeoutMs: -1 }, 'timeoutMs'],
    ['timeoutMs NaN [core-6.1.3]', { timeoutMs: NaN }, 'timeoutMs'],
    ['timeoutMs Infinity [core-6.1.3]', { timeoutMs: Infinity }, 'timeoutMs'],
    ['timeoutMs a string [core-6.1.3]', { timeoutMs: '100' }, 'timeoutMs'],
    ['timeoutMs beyond what timers take [core-18.6]', { timeoutMs: 2 ** 31 }, 'timeoutMs'],
    ['empty name [core-6.2.name]', { name: '' }, 'name'],
    ['name with a dot [core-6.2.name]', { name: 'my-tool.v2' }, 'name'],
    ['name of 65 [core-6.2.name]', { name: 'a'.repeat(65) }, 'name'],
    ['name with a line end', { name: 'probe\n' }, 'name'],
    ['name not a string', { name: 7 }, 'name'],
    ['no description [core-6.2.description]', { description: undefined }, 'description'],
    ['parameters missing [core-6.2.parameters]', { parameters: undefined }, 'parameters'],
    ['parameters not lossless [core-6.2.parameters]', { parameters: { type: 'object', default: NaN } }, 'parameters'],
    ['parameters of another type [core-6.2.parameters]', { parameters: { type: 'string' } }, 'parameters'],
    ['parameters an array', { parameters: [] }, 'parameters'],
    ['parameters with an inherited type', { parameters: JSON.parse('{"__proto__":{"type":"object"}}') }, 'parameters'],
    ['execute not a function [core-6.2.execute]', { execute: 'run' }, 'execute'],
    ['idempotent not a boolean', { idempotent: 1 }, 'idempotent'],
    ['isConcurrencySafe not a function [core-6.2.callbacks]', { isConcurrencySafe: true }, 'isConcurrencySafe'],
    ['finalizeContent not a function [core-6.2.callbacks]', { finalizeContent: null }, 'finalizeContent'],
    ['presentCall not a function [core-6.2.callbacks]', { presentCall: {} }, 'presentCall'],
    ['presentResult not a function [core-6.2.callbacks]', { presentResult: 'x' }, 'presentResult'],
    ['validateArguments not a function', { validateArguments: {} }, 'validateArguments'],
    ['validateOutput not a function', { validateOutput: 1 }, 'validateOutput']
  ])('%s is a TypeError naming what is wrong', (_what, members, member) => {
    expect(broken(members)).toThrow(TypeError)
    expect(broken(members)).toThrow(member)
  })

  it('names the tool', () => {
    expect(broken({ output: undefined })).toThrow('"probe"')
  })

  it.each([null, undefined, 'tool', () => {}])('%s is no definition', (given) => {
    expect(() => snapshotDefinition(given as unknown as ToolDefinition)).toThrow(TypeError)
  })

  it('C009 reports an output schema outside the subset as UNSUPPORTED_SCHEMA, with its path [core-6.1.2]', () => {
    const schema = { type: 'object', anyOf: [] }
    expect(broken(output({ schema }))).toThrow(
      expect.objectContaining({ name: 'JsonSchemaError', code: 'UNSUPPORTED_SCHEMA' })
    )
    expect(broken(output({ schema }))).toThrow('schema.anyOf')
  })

  it.each<[string, unknown]>([
    ['missing', undefined],
    ['a string', 'string'],
    ['not lossless', { type: 'string', default: NaN }],
    [
      'circular',
      (() => {
        const schema: Record<string, unknown> = { type: 'array' }
        schema.items = schema
        return schema
      })()
    ]
  ])('an output schema that is %s is UNSUPPORTED_SCHEMA', (_what, schema) => {
    expect(broken(output({ schema }))).toThrow(expect.objectContaining({ code: 'UNSUPPORTED_SCHEMA' }))
  })

  it('checks in the order of the table: output, schema, timeoutMs, then the rest [core-6.1.order]', () => {
    expect(broken({ ...output({ render: 1, schema: { type: 'x' } }), timeoutMs: 0, name: '' })).toThrow('output.render')
    expect(broken({ ...output({ schema: { type: 'x' } }), timeoutMs: 0, name: '' })).toThrow('schema.type')
    expect(broken({ timeoutMs: 0, name: '' })).toThrow('timeoutMs')
  })

  it('checks the copy: a getter that changes its answer is read once', () => {
    let reads = 0
    const schema = {
      get type() {
        reads += 1
        return reads === 1 ? 'string' : 'nonsense'
      }
    }
    const made = snapshotDefinition({ ...bareTool('probe'), output: { schema, render: () => [] } })
    expect(made.output.schema).toEqual({ type: 'string' })
    expect(reads).toBe(1)
  })
})

describe('the copy (core.md §6.6)', () => {
  it('is frozen, and detached from what the author holds [core-6.6]', () => {
    const given = bareTool('probe', { timeoutMs: 30_000, idempotent: true })
    const made = snapshotDefinition(given)
    given.description = 'changed'
    given.parameters.type = 'string'
    given.output.schema.type = 'number'
    expect(made).toMatchObject({
      description: 'does probe',
      parameters: { type: 'object' },
      timeoutMs: 30_000,
      idempotent: true
    })
    expect(made.output.schema).toEqual({ type: 'string' })
    for (const part of [made, made.parameters, made.parameters.properties, made.output, made.output.schema]) {
      expect(Object.isFrozen(part)).toBe(true)
    }
    expect(Object.isFrozen(given)).toBe(false)
  })

  it('has only the members that were given', () => {
    expect(Object.keys(snapshotDefinition(bareTool('probe'))).sort()).toEqual([
      'description',
      'execute',
      'name',
      'output',
      'parameters'
    ])
    const given = { ...bareTool('probe'), timeoutMs: undefined, presentCall: undefined } as unknown as ToolDefinition
    expect('timeoutMs' in snapshotDefinition(given)).toBe(false)
    expect('presentCall' in snapshotDefinition(given)).toBe(false)
  })

  it('keeps functions on the object they were written for', () => {
    class Counter {
      count = 0
      name = 'counter'
      description = 'counts'
      parameters = { type: 'object' }
      output = {
        unit: 'calls',
        schema: { type: 'integer' },
        render(_args: unknown, value: unknown) {
          return [{ type: 'text' as const, text: `${String(value)} ${this.unit}` }]
        },
        presentationMeta() {
          return this.unit
        }
      }
      execute() {
        this.count += 1
        return this.count
      }
      isConcurrencySafe() {
        return this.count > 0
      }
    }
    const counter = new Counter()
    const made = snapshotDefinition(counter)
    expect(made.isConcurrencySafe?.({})).toBe(false)
    expect(made.execute({}, {} as never)).toBe(1)
    expect(made.isConcurrencySafe?.({})).toBe(true)
    expect(counter.count).toBe(1)
    expect(made.output.render({}, 3)).toEqual([{ type: 'text', text: '3 calls' }])
    expect(made.output.presentationMeta?.({}, 3)).toBe('calls')
  })

  it('lets validateOutput stand in for the subset, so that any lossless object is a schema', () => {
    const foreign = { schema: { $ref: '#/$defs/x', $defs: { x: {} } }, render: () => [] }
    const made = snapshotDefinition({ ...bareTool('probe'), output: foreign, validateOutput: () => [] })
    expect(made.output.schema).toEqual(foreign.schema)
    expect(made.validateOutput?.(1)).toEqual([])
    expect(broken({ ...output({ schema: [] }), validateOutput: () => [] })).toThrow(TypeError)
    expect(broken({ ...output({ schema: { x: undefined } }), validateOutput: () => [] })).toThrow(TypeError)
  })
})
