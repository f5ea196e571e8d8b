import { describe, expect, it } from 'vitest'
import { openMemoryLog } from '../../server/event-log/memory-log.ts'
import { driftOf, type PinnedDefinition } from '../../server/registrations/definition-drift.ts'
import { DefinitionPins } from '../../server/registrations/definition-pins.ts'

const text = { type: 'string' }
const schema = (properties: object, more: object = {}): any => ({ type: 'object', properties, ...more })
const definition = (parameters: any, more: Partial<PinnedDefinition> = {}): PinnedDefinition => ({
  description: 'plain',
  parameters,
  ...more
})

describe('what a definition may become (reliability.md §1.3)', () => {
  const before = definition(
    schema({ a: text, b: { type: 'object', properties: { c: text } } }, { required: ['a', 'b'] })
  )
  const harmless: Record<string, PinnedDefinition> = {
    same: before,
    'other order of members': definition({
      required: ['b', 'a'],
      properties: { b: { properties: { c: text }, type: 'object' }, a: text },
      type: 'object'
    }),
    'an optional property': definition(
      schema({ ...(before.parameters['properties'] as object), d: text }, { required: ['a', 'b'] })
    ),
    'an optional property below': definition(
      schema({ a: text, b: { type: 'object', properties: { c: text, d: text } } }, { required: ['a', 'b'] })
    ),
    'a title': definition(
      schema(
        { a: { ...text, title: 'A' }, b: { type: 'object', properties: { c: text } } },
        { required: ['a', 'b'], title: 'T' }
      )
    )
  }
  it.each(Object.entries(harmless))('passes: %s', (_name, after) => {
    expect(driftOf(before, after).changes).toEqual([])
  })

  const harmful: Record<string, PinnedDefinition> = {
    'another description': { ...before, description: 'other' },
    'the description of a property': definition(
      schema({ a: { ...text, description: 'your key' }, b: before.parameters['properties'] }, {})
    ),
    'a property that is gone': definition(schema({ a: text }, { required: ['a', 'b'] })),
    'a property of another type': definition(
      schema({ a: { type: 'number' }, b: { type: 'object', properties: { c: text } } }, { required: ['a', 'b'] })
    ),
    'a new required property': definition(
      schema({ ...(before.parameters['properties'] as object), d: text }, { required: ['a', 'b', 'd'] })
    ),
    'one that is no longer required': definition(
      schema(before.parameters['properties'] as object, { required: ['a'] })
    ),
    'one that is required now': definition(
      schema({ a: text, b: { type: 'object', properties: { c: text }, required: ['c'] } }, { required: ['a', 'b'] })
    ),
    'a default': definition(
      schema(
        { a: { ...text, default: 'rm' }, b: { type: 'object', properties: { c: text } } },
        { required: ['a', 'b'] }
      )
    ),
    'closed now': definition(
      schema(before.parameters['properties'] as object, { required: ['a', 'b'], additionalProperties: false })
    ),
    'an output schema': { ...before, output: schema({}) },
    'a property named __proto__ that is required': definition(
      JSON.parse(
        '{"type":"object","properties":{"a":{"type":"string"},"b":{"type":"object","properties":{"c":{"type":"string"}}},"__proto__":{}},"required":["a","b","__proto__"]}'
      )
    )
  }
  it.each(Object.entries(harmful))('does not pass: %s', (_name, after) => {
    expect(driftOf(before, after).changes).not.toEqual([])
  })

  it('an added property is no widening where schemas may turn it around', () => {
    const under = (keyword: string, properties: object): PinnedDefinition =>
      definition({ type: 'object', [keyword]: { properties } })
    for (const keyword of ['not', 'if', 'contains']) {
      expect(driftOf(under(keyword, { a: text }), under(keyword, { a: text, b: text })).changes).not.toEqual([])
    }
  })

  it('says where and how, and not too much of it', () => {
    const { changes } = driftOf(
      before,
      definition(schema({ a: { type: 'number', description: 'x'.repeat(10_000) } }, { required: ['a'] }))
    )
    expect(changes).toContain('parameters.properties.a.type: was "string" and is "number"')
    expect(changes).toContain('parameters.properties.b: is gone')
    expect(Math.max(...changes.map(({ length }) => length))).toBeLessThan(500)
    const many = Object.fromEntries(Array.from({ length: 1_000 }, (_, at) => [`p${at}`, text]))
    expect(driftOf(definition(schema(many)), definition(schema({}))).changes).toHaveLength(50)
  })
})

describe('pins', () => {
  const origin = { scope: 'global', origin: 'mcp:s', drift: 'quarantine', maxNames: 3 } as const
  const named = (...entries: [string, string][]) =>
    new Map(entries.map(([name, description]) => [name, definition(schema({}), { description })]))

  async function open(log = openMemoryLog()) {
    const warnings: string[] = []
    const pins = await DefinitionPins.open({ log, now: () => 1, warn: (message) => warnings.push(message) })
    return { log, pins, warnings }
  }

  it('survive a restart, a tool that was gone, and names that are those of something else', async () => {
    const { log, pins } = await open()
    expect([...(await pins.judge(origin, named(['t', 'one'], ['__proto__', 'one'])))]).toEqual(['t', '__proto__'])
    await pins.judge(origin, named())
    const later = (await open(log)).pins
    expect([...(await later.judge(origin, named(['t', 'two'], ['__proto__', 'one'])))]).toEqual(['__proto__'])
    const last = (await open(log)).pins
    expect(last.quarantined('global', 'mcp:s').map(({ name, since }) => [name, since])).toEqual([['t', 1]])
    expect(last.quarantined('global', 'mcp:other')).toEqual([])
    // As it was, while it waited.
    expect([...(await last.judge(origin, named(['t', 'one'])))]).toEqual(['t'])
    expect(last.quarantined('global', 'mcp:s')).toEqual([])
  })

  it('of a scope that is gone hold nobody who has its id later', async () => {
    const { pins } = await open()
    const ofScope = { ...origin, scope: 'a' }
    for (const each of [origin, ofScope]) await pins.judge(each, named(['t', 'one']))
    await pins.dropScopes(['a', 'b'])
    expect([...(await pins.judge(ofScope, named(['t', 'two'])))]).toEqual(['t'])
    expect([...(await pins.judge(origin, named(['t', 'two'])))]).toEqual([])
  })

  it('are released as they were looked at, once, and their source hears of it', async () => {
    const { pins } = await open()
    const heard: string[] = []
    const undo = pins.onAccepted(async (...about) => {
      await pins.judge({ ...origin, origin: 'mcp:other' }, new Map())
      heard.push(about.join(' '))
    })
    await pins.judge(origin, named(['t', 'one']))
    await pins.judge(origin, named(['t', 'two']))
    const [looked] = pins.quarantined('global', 'mcp:s')
    await pins.judge(origin, named(['t', 'three']))
    await expect(pins.accept('global', 't', looked!.hash)).rejects.toMatchObject({ code: 'APPROVAL_STALE' })
    await expect(pins.accept('other', 't')).rejects.toMatchObject({ code: 'NOT_FOUND' })
    const [now] = pins.quarantined('global', 'mcp:s')
    await pins.accept('global', 't', now!.hash)
    await expect(pins.accept('global', 't')).rejects.toMatchObject({ code: 'NOT_FOUND' })
    expect(heard).toEqual(['global mcp:s t'])
    expect([...(await pins.judge(origin, named(['t', 'three'])))]).toEqual(['t'])
    undo()
  })

  it('only log where that is said, tell of what they let pass, and know no end of names', async () => {
    const { pins, warnings } = await open()
    const relaxed = { ...origin, drift: 'log' } as const
    await pins.judge(relaxed, named(['t', 'one']))
    expect([...(await pins.judge(relaxed, named(['t', 'two'])))]).toEqual(['t'])
    expect(warnings).toEqual(['the definition of a tool has changed'])
    const admitted = await pins.judge(origin, named(['t', 'two'], ['u', ''], ['v', ''], ['w', '']))
    expect([...admitted]).toEqual(['t', 'u', 'v'])
    // Another source's tool of the same name is another tool.
    expect([...(await pins.judge({ ...origin, origin: 'mcp:x' }, named(['t', 'else'])))]).toEqual(['t'])
    await pins.forget('global', 'mcp:s', ['u'])
    expect([...(await pins.judge(origin, named(['w', ''])))]).toEqual(['w'])
  })

  it('are not moved by what could not be stored', async () => {
    const { log, pins } = await open()
    await pins.judge(origin, named(['t', 'one']))
    await pins.judge(origin, named(['t', 'two']))
    await log.close()
    await expect(pins.accept('global', 't')).rejects.toThrow()
    expect(pins.quarantined('global', 'mcp:s')).toHaveLength(1)
  })
})
