import { describe, expect, it } from 'vitest'
import { addHook } from '../../server/pipeline/hooks.ts'
import { compileParameters, compileValue } from '../../server/schema/compile.ts'
import { assertSupportedSchema, JsonSchemaError } from '../../server/schema/supported.ts'
import { validateValue } from '../../server/schema/validate.ts'
import { bareTool } from '../helpers/bare-tool.ts'
import { PipelineFixture } from '../helpers/pipeline-fixture.ts'

/** The quoted path of each violation of a schema. */
function places(schema: unknown): string[] {
  try {
    assertSupportedSchema(schema)
    return []
  } catch (error) {
    return (error as JsonSchemaError).violations.map((text) => text.slice(1, text.indexOf('" ')))
  }
}

describe('schemas', () => {
  const faulty = { items: 1, required: 'a', title: 1, default: NaN, description: 1, nope: 1 }

  it('the faults of one node come in their order, whatever the order of its members [core-3.9.node-order]', () => {
    expect(places({ ...faulty, type: 'object' })).toEqual([
      'schema.default',
      'schema.nope',
      'schema.description',
      'schema.title',
      'schema.items',
      'schema.required'
    ])
    expect(places({ ...faulty, type: 'tuple' })).toEqual([
      'schema.default',
      'schema.nope',
      'schema.description',
      'schema.title',
      'schema.type'
    ])
  })

  it('an object without properties and an array without items ask for the container alone [core-4.9]', () => {
    const open = compileValue({ type: 'object', additionalProperties: true })
    const list = compileValue({ type: 'array' })
    const mixed = [1, 'x', null, { a: [true] }]
    expect(validateValue(open, { a: 1, b: mixed }, 'value')).toEqual([])
    expect(validateValue(list, mixed, 'value')).toEqual([])
    for (const value of [mixed, 'x', null]) expect(validateValue(open, value, 'value')).toHaveLength(1)
    for (const value of [{ 0: 1, length: 1 }, 'x', null]) expect(validateValue(list, value, 'value')).toHaveLength(1)
    expect(validateValue(open, { a: new Date(0) }, 'value')).toHaveLength(1)
    expect(validateValue(list, [NaN], 'value')).toHaveLength(1)
    const parameters = compileParameters({ list: { type: 'array' } })
    expect(validateValue(parameters, { list: mixed }, '')).toEqual([])
  })
})

describe('the registry', () => {
  it('tools/change carries nothing; guards and hooks do not emit it [core-6.5.payload]', () => {
    const fixture = new PipelineFixture()
    const heard: unknown[][] = []
    fixture.registry.onChange((...args: unknown[]) => heard.push(args))
    const undoGuard = fixture.guard(() => undefined)
    const undoHook = addHook(fixture.tree.global, 'preExecute', (_exec, next) => next())
    undoGuard()
    undoHook()
    expect(heard).toEqual([])
    fixture.register(bareTool('new'))
    expect(heard).toEqual([[]])
  })

  it.each<[string, (fixture: PipelineFixture) => unknown]>([
    ['a duplicate [core-30.plain-error]', (fixture) => fixture.register(bareTool('echo'))],
    ['a reserved name [core-30.plain-error]', (fixture) => fixture.register(bareTool('run_code'))],
    ['a mask on no scope [core-30.plain-error]', (fixture) => fixture.tools.restrict({ deny: ['echo'] })],
    ['a mask without lists [core-30.plain-error]', (fixture) => fixture.tools.child('a').restrict({})],
    ['a mask of unknown names [core-30.plain-error]', (fixture) => fixture.tools.child('a').restrict({ deny: ['x'] })],
    ['a mode on no scope [core-30.plain-error]', (fixture) => fixture.tools.presentAs('code')],
    ['a mode that is none [core-30.plain-error]', (fixture) => fixture.tools.child('a').presentAs('odd' as never)]
  ])('%s is a plain Error, without a code', (_what, misuse) => {
    let thrown: unknown
    try {
      misuse(new PipelineFixture())
    } catch (error) {
      thrown = error
    }
    expect(thrown).toMatchObject({ name: 'Error', message: expect.stringMatching(/./) })
    expect(thrown).not.toHaveProperty('code')
  })

  it('C037 a scoped tool, called from elsewhere, is like one that never existed [core-7.4.hidden]', async () => {
    const fixture = new PipelineFixture()
    const owner = fixture.agent('owner')
    const sibling = fixture.agent('sibling')
    fixture.register(bareTool('mine'), owner.scope)
    expect(await fixture.call('mine', {}, { agent: owner })).toMatchObject({ value: 'mine-ok' })
    for (const agent of [sibling, undefined]) {
      const as = agent === undefined ? {} : { agent }
      fixture.trace.length = 0
      const hidden = await fixture.call('mine', {}, as)
      const stages = fixture.stages.splice(0)
      fixture.trace.length = 0
      const never = await fixture.call('never', {}, as)
      expect(JSON.stringify(hidden).replaceAll('mine', 'never')).toBe(JSON.stringify(never))
      expect(never).toMatchObject({ error: { info: { name: 'ToolNotFoundError', code: 'UNKNOWN_TOOL' } } })
      expect(fixture.stages).toEqual(stages)
    }
  })

  it('how a tool is classified is no part of its schema [core-21.hidden]', () => {
    const fixture = new PipelineFixture()
    const [parallel, exclusive] = ['gate', 'xgate'].map((tool) => {
      const { name, description, ...rest } = fixture.registry.schemas().find((schema) => schema.name === tool)!
      expect([name, description]).not.toContain(undefined)
      return rest
    })
    expect(parallel).toEqual(exclusive)
    expect(Object.keys(parallel ?? {})).toEqual(['parameters'])
  })
})
