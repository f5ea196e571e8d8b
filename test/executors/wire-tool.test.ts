import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Executor, WireAnswer, WireCall } from '../../server/executors/executor.ts'
import { wireTool, type WireToolFields } from '../../server/executors/wire-tool.ts'
import type { JsonValue } from '../../server/json/lossless.ts'
import type { ToolResult } from '../../server/pipeline/result.ts'
import { WireSchemas } from '../../server/schema/ajv-validator.ts'
import { ToolOutputError } from '../../server/tools/output-error.ts'
import {
  codeOf,
  contextFrom,
  contextsOf,
  deferred,
  messageIn,
  PipelineFixture,
  TestError
} from '../helpers/pipeline-fixture.ts'

let schemas: WireSchemas
beforeAll(() => {
  schemas = new WireSchemas()
})
afterAll(async () => {
  await schemas.close()
  expect(Object.keys(Object.prototype), 'S14').toEqual([])
})

const fields: WireToolFields = { name: 'wired', description: 'A tool from outside.', parameters: { type: 'object' } }
const parse = (text: string): any => JSON.parse(text)

/** An executor that keeps what it was asked. */
class Recorder implements Executor {
  readonly kind = 'http'
  readonly calls: WireCall[] = []
  readonly #answer: (call: WireCall) => WireAnswer | Promise<WireAnswer>

  constructor(
    answer: (call: WireCall) => WireAnswer | Promise<WireAnswer> = ({ arguments: args }) => ({ value: args })
  ) {
    this.#answer = answer
  }

  describe() {
    return { kind: 'forged', url: 'http://tools.example' }
  }

  async run(call: WireCall): Promise<WireAnswer> {
    this.calls.push(call)
    return this.#answer(call)
  }
}

async function registered(
  more: Partial<WireToolFields> = {},
  answer?: (call: WireCall) => WireAnswer | Promise<WireAnswer>
): Promise<{ fixture: PipelineFixture; executor: Recorder }> {
  const fixture = new PipelineFixture({ traced: false })
  const executor = new Recorder(answer)
  fixture.register(await wireTool({ ...fields, ...more }, executor, schemas))
  return { fixture, executor }
}

const refusal = (more: Record<string, unknown>): Promise<any> =>
  wireTool({ ...fields, ...more } as WireToolFields, new Recorder(), schemas).catch((error: unknown) => error)

const textOf = (result: ToolResult): unknown[] => result.content.map((block) => block['text'] ?? block)
const valueOf = (result: ToolResult): JsonValue | undefined => (result.isError ? undefined : result.value)

describe('a tool that came over the wire (api.md §3)', () => {
  it('hands its executor the call, its deadline and its signal', async () => {
    const { fixture, executor } = await registered({ timeoutMs: 60_000, idempotent: true })
    const agent = fixture.agent('a')
    const before = Date.now()
    const result = await fixture.call('wired', { x: 1 }, { callId: 'c', agent })
    expect(result).toMatchObject({ isError: false, value: { x: 1 } })
    const [call] = executor.calls
    expect(call).toMatchObject({ callId: 'c', name: 'wired', arguments: { x: 1 }, scope: 'a', session: 'session-a' })
    expect(call?.isIdempotent).toBe(true)
    expect(call?.signal).toBeInstanceOf(AbortSignal)
    expect(call?.deadlineAt).toBeGreaterThanOrEqual(before + 60_000)
    await fixture.call('wired', {})
    expect(executor.calls[1]).toMatchObject({ scope: 'global', arguments: {} })
    expect(executor.calls[1]).not.toHaveProperty('session')
  })

  it('arguments are checked by its schema before anything runs, with paths; a dry run lists the same', async () => {
    const parameters = {
      type: 'object',
      required: ['to'],
      properties: { to: { type: 'array', items: { type: 'string' } } }
    }
    const { fixture, executor } = await registered({ parameters })
    const result = await fixture.call('wired', { to: ['a', 5] })
    expect([codeOf(result), messageIn(result)]).toEqual(['INVALID_ARGS', expect.stringContaining('"to[1]"')])
    const { call } = await fixture.staged(fixture.input('wired', {}))
    expect(call.effect).toBe('none')
    expect(executor.calls).toEqual([])
    const tool = fixture.registry.lookup('wired')
    expect(await tool?.validateArguments?.({ to: 1 })).toEqual([expect.stringContaining('"to"')])
    expect(await tool?.validateArguments?.({ to: [] })).toEqual([])
  })

  it('F43 a schema of no more than a type takes {}', async () => {
    const { fixture, executor } = await registered()
    expect(await fixture.call('wired', {})).toMatchObject({ isError: false, value: {} })
    expect(executor.calls).toHaveLength(1)
  })

  it('F39 F41 references to siblings, unknown keywords and formats are no obstacle', async () => {
    const parameters = {
      type: 'object',
      properties: { x: { type: 'integer', format: 'uint32', 'x-foo': 1 }, y: { $ref: '#/properties/x' } },
      'x-vendor': { deep: [1] }
    }
    const { fixture } = await registered({ parameters })
    expect(await fixture.call('wired', { x: 1, y: 2 })).toMatchObject({ isError: false })
    expect(codeOf(await fixture.call('wired', { x: 1, y: 'no' }))).toBe('INVALID_ARGS')
    expect(fixture.registry.schemas()).toContainEqual({ name: 'wired', description: fields.description, parameters })
  })

  it('output is any JSON by default, or what its schema takes; else INVALID_TOOL_OUTPUT, which is done by then', async () => {
    const answers: unknown[] = [null, 'text', { deep: [{ a: 1 }] }, 5]
    const any = await registered({}, () => ({ value: answers.shift() as JsonValue }))
    const results: ToolResult[] = []
    while (answers.length > 0) results.push(await any.fixture.call('wired'))
    expect(results.map(textOf)).toEqual([
      ['null'],
      ['text'],
      ['{\n  "deep": [\n    {\n      "a": 1\n    }\n  ]\n}'],
      ['5']
    ])

    const output = { schema: { type: 'object', properties: { n: { type: 'integer', minimum: 1 } }, required: ['n'] } }
    let value: JsonValue = { n: 0 }
    const typed = await registered({ output }, () => ({ value }))
    const { call, result } = await typed.fixture.staged(typed.fixture.input('wired'))
    expect([codeOf(result), messageIn(result)]).toEqual(['INVALID_TOOL_OUTPUT', expect.stringContaining('"value.n"')])
    expect(call.effect).toBe('completed')
    value = { n: 1 }
    expect(valueOf(await typed.fixture.call('wired'))).toEqual({ n: 1 })
  })

  it('what an executor says of its output is INVALID_TOOL_OUTPUT and done; what else it throws is its own', async () => {
    let error: Error = new ToolOutputError('an integer is too large')
    const { fixture } = await registered({}, () => {
      throw error
    })
    const told = await fixture.staged(fixture.input('wired'))
    expect([codeOf(told.result), told.call.effect, told.call.stoppedAt]).toEqual([
      'INVALID_TOOL_OUTPUT',
      'completed',
      'output'
    ])
    expect(told.result).toMatchObject({ error: { info: { name: 'ToolOutputError' } } })
    error = new TestError('ITS_OWN', 'no')
    const own = await fixture.staged(fixture.input('wired'))
    expect([codeOf(own.result), own.call.effect]).toEqual(['ITS_OWN', 'unknown'])
    error = Object.assign(new TestError('NOBODY', 'no'), { effect: 'none' })
    const nobody = await fixture.staged(fixture.input('wired'))
    expect([codeOf(nobody.result), nobody.call.effect]).toEqual(['NOBODY', 'none'])
  })

  it('keys such as __proto__ are data in arguments, results, content and schemas', async () => {
    const schema = parse(
      '{"type":"object","properties":{"__proto__":{"type":"string"},"constructor":{"type":"number"}}}'
    )
    const content = parse('[{"type":"text","text":"x","__proto__":{"polluted":1}}]')
    const { fixture, executor } = await registered(
      { parameters: schema, output: { schema } },
      ({ arguments: args }) => ({
        value: args,
        content
      })
    )
    const args = parse('{"__proto__":"a","constructor":1}')
    const result = await fixture.call('wired', args)
    expect(JSON.stringify(executor.calls[0]?.arguments)).toBe(JSON.stringify(args))
    expect(JSON.stringify(valueOf(result))).toBe(JSON.stringify(args))
    expect(JSON.stringify(result.content)).toBe(JSON.stringify(content))
    expect(codeOf(await fixture.call('wired', parse('{"__proto__":1}')))).toBe('INVALID_ARGS')
    expect(codeOf(await fixture.call('wired', parse('{"constructor":{}}')))).toBe('INVALID_ARGS')
    expect(JSON.stringify(fixture.registry.lookup('wired')?.parameters)).toBe(JSON.stringify(schema))
    expect(({} as { polluted?: 1 }).polluted).toBeUndefined()
  })

  it('tells where it is from, whatever its executor says of itself', async () => {
    const { fixture } = await registered({ concurrency: 'parallel', origin: 'import', timeoutMs: 5 })
    const tool = fixture.registry.lookup('wired')
    expect(tool?.describeSource?.()).toEqual({
      origin: 'import',
      executor: { kind: 'http', url: 'http://tools.example' }
    })
    expect([tool?.timeoutMs, tool?.isConcurrencySafe?.({})]).toEqual([5, true])
    const plain = (await registered()).fixture.registry.lookup('wired')
    expect([plain?.describeSource?.().origin, plain?.isConcurrencySafe, plain?.idempotent]).toEqual([
      'wire',
      undefined,
      undefined
    ])
  })

  it('a call that is aborted while it runs ends as aborted', async () => {
    const entered = deferred()
    const { fixture } = await registered({}, async ({ signal }) => {
      entered.resolve()
      await new Promise((resolve) => signal.addEventListener('abort', resolve))
      return { value: 'late' }
    })
    const { controller, result } = fixture.start('wired')
    await entered.promise
    controller.abort()
    expect(codeOf(await result)).toBe('ABORTED')
  })
})

describe('content of the executor (backends.md §10, Projection)', () => {
  const image = { type: 'image', data: 'aGk=', mimeType: 'image/png' } as const
  const withContent = (content: unknown) =>
    registered({}, () => ({ value: { a: 1 }, content: content as NonNullable<WireAnswer['content']> }))

  it('stands in for the rendering, also beside contexts that hooks add', async () => {
    const { fixture } = await withContent([image])
    expect((await fixture.call('wired')).content).toEqual([image])
    fixture.hook('postExecute', async () => ({ kind: 'accept', additionalContexts: [contextFrom('p')] }))
    // A copy counts for its value alone, and is rendered again (core.md §12.8).
    fixture.hook('execute', async (_exec, next) => ({ ...(await next()) }))
    const result = await fixture.call('wired')
    expect([result.content, contextsOf(result)]).toEqual([[image], ['p']])
  })

  it('gives way where the value or the content was replaced', async () => {
    const { fixture } = await withContent([image])
    const undoContent = fixture.hook('postExecute', async () => ({
      kind: 'accept',
      content: [{ type: 'text', text: 'hidden' }]
    }))
    expect(textOf(await fixture.call('wired'))).toEqual(['hidden'])
    undoContent()
    const undoValue = fixture.hook('postExecute', async () => ({ kind: 'accept', value: 'other' }))
    expect(textOf(await fixture.call('wired'))).toEqual(['other'])
    undoValue()
    fixture.hook('execute', async () => ({ isError: false, value: { a: 2 }, content: [] }))
    expect(textOf(await fixture.call('wired'))).toEqual(['{\n  "a": 2\n}'])
  })

  it('counts for the last attempt only, and for no failure', async () => {
    const contents: unknown[] = [[image], undefined]
    const { fixture } = await registered({}, () => ({
      value: 'v',
      ...(contents.length > 1 ? { content: contents.shift() as [] } : {})
    }))
    const undo = fixture.hook('execute', async (_exec, next) => {
      await next()
      return next()
    })
    expect(textOf(await fixture.call('wired'))).toEqual(['v'])
    undo()
    contents.unshift([image])
    fixture.hook('postExecute', async () => ({ kind: 'block', feedback: [{ type: 'text', text: 'no' }] }))
    expect(textOf(await fixture.call('wired'))).toEqual(['no'])
  })

  it('is INVALID_TOOL_OUTPUT where it is no content', async () => {
    for (const content of [
      null,
      'text',
      {},
      [null],
      [[]],
      [{}],
      [{ type: 1 }],
      [{ type: 'text' }],
      [{ type: 'x', n: -0 }]
    ]) {
      const { fixture } = await withContent(content)
      const result = await fixture.call('wired')
      expect([content, codeOf(result)]).toEqual([content, 'INVALID_TOOL_OUTPUT'])
    }
  })
})

describe('hostile definitions', () => {
  it('bad members are INVALID_DEFINITION, and say which', async () => {
    const bad: [Record<string, unknown>, string][] = [
      ...['', '__proto__ ', 'a b', 'x'.repeat(65), 'tool\0', 'tööl', 5, null].map(
        (name): [Record<string, unknown>, string] => [{ name }, 'name']
      ),
      [{ name: 'run_code' }, 'run_code'],
      [{ description: 5 }, 'description'],
      [{ description: undefined }, 'description'],
      ...[{}, [], null, 'x', { type: 'string' }, { type: ['object'] }, Object.create({ type: 'object' })].map(
        (parameters): [Record<string, unknown>, string] => [{ parameters }, 'parameters']
      ),
      [{ output: [] }, 'output'],
      ...[0, -1, Number.NaN, Infinity, 2 ** 31, '5'].map((timeoutMs): [Record<string, unknown>, string] => [
        { timeoutMs },
        'timeoutMs'
      ]),
      [{ concurrency: 'sometimes' }, 'concurrency'],
      [{ idempotent: 'yes' }, 'idempotent']
    ]
    for (const [more, word] of bad) {
      const error = await refusal(more)
      expect([more, error.code, String(error.message)]).toEqual([
        more,
        'INVALID_DEFINITION',
        expect.stringContaining(word)
      ])
    }
  })

  it('a name such as __proto__ or constructor is a name like any other', async () => {
    for (const name of ['__proto__', 'constructor', 'toString', 'hasOwnProperty']) {
      const { fixture } = await registered({ name })
      expect(await fixture.call(name, { a: 1 })).toMatchObject({ isError: false, value: { a: 1 } })
    }
  })

  it('S8 S13 schemas beyond the limits are UNSUPPORTED_SCHEMA, and name the place', async () => {
    const deep = parse(`${'{"type":"object","properties":{"a":'.repeat(40)}{}${'}}'.repeat(40)}`)
    const doubling: Record<string, unknown> = { d0: { type: 'string' } }
    for (let level = 1; level <= 30; level += 1) {
      const $ref = `#/$defs/d${level - 1}`
      doubling[`d${level}`] = { allOf: [{ $ref }, { $ref }] }
    }
    const object = (more: Record<string, unknown>) => ({ type: 'object', ...more })
    const bombs: [Record<string, unknown>, string][] = [
      [{ parameters: deep }, 'parameters'],
      [{ parameters: object({ $defs: doubling, properties: { x: { $ref: '#/$defs/d30' } } }) }, 'parameters'],
      [{ parameters: object({ description: 'x'.repeat(70_000) }) }, 'parameters'],
      [{ parameters: object({ properties: { a: { $ref: 'http://127.0.0.1:1/schema' } } }) }, 'parameters'],
      [{ parameters: object({ properties: { a: { pattern: '(?=a)' } } }) }, 'parameters.properties.a.pattern'],
      [{ parameters: object({ properties: { a: { type: 'nonsense' } } }) }, 'parameters.properties.a'],
      [{ parameters: object({ $schema: 'http://json-schema.org/draft-04/schema#' }) }, 'parameters.$schema'],
      [{ output: { schema: { uniqueItems: true } } }, 'output.schema.uniqueItems'],
      [{ output: { schema: null } }, 'output.schema'],
      [{ output: {} }, 'output.schema']
    ]
    for (const [more, place] of bombs) {
      const error = await refusal(more)
      expect([place, error.code, String(error.message)]).toEqual([
        place,
        'UNSUPPORTED_SCHEMA',
        expect.stringContaining(place)
      ])
    }
  })

  it('references in a circle are refused, or refuse all that they are to check; recursion that ends is fine', async () => {
    const circle = { type: 'object', $defs: { a: { $ref: '#/$defs/b' }, b: { $ref: '#/$defs/a' } } }
    const error = await refusal({ parameters: { ...circle, properties: { x: { $ref: '#/$defs/a' } } } })
    expect([error.code, error.message]).toEqual(['UNSUPPORTED_SCHEMA', expect.stringContaining('"parameters"')])
    const both = { allOf: [{ $ref: '#/$defs/b' }, { $ref: '#/$defs/b' }] }
    const endless = { type: 'object', $defs: { a: both, b: { $ref: '#/$defs/a' } }, allOf: [both] }
    const refusing = await registered({ parameters: endless })
    const result = await refusing.fixture.call('wired', {})
    expect([codeOf(result), refusing.executor.calls]).toEqual(['INVALID_ARGS', []])
    const tree = { type: 'object', properties: { child: { $ref: '#' } }, additionalProperties: false }
    const { fixture } = await registered({ parameters: tree })
    expect(codeOf(await fixture.call('wired', { child: { child: {} } }))).toBeUndefined()
    expect(codeOf(await fixture.call('wired', { child: { child: { x: 1 } } }))).toBe('INVALID_ARGS')
  })
})
