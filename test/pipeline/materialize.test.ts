import { describe, expect, it } from 'vitest'
import { text } from '../../server/authoring/content.ts'
import { defineTool } from '../../server/authoring/define-tool.ts'
import type { ExecutionInput } from '../../server/pipeline/execution.ts'
import { ToolArgsError } from '../../server/tools/args-error.ts'
import { PipelineFixture, TestError, codeOf, messageIn } from '../helpers/pipeline-fixture.ts'

const aborted = AbortSignal.abort()

describe('the result of a plain call', () => {
  it('C001 has exactly the keys of its shape, and the observer gets an equal one once [core-1.presence] [core-1.failure-keys]', async () => {
    const fixture = new PipelineFixture()
    const result = await fixture.call('echo', { text: 'hi' })
    expect(result).toStrictEqual({ isError: false, value: 'hi', content: [{ type: 'text', text: 'hi' }] })
    expect(Object.keys(result)).toEqual(['isError', 'value', 'content'])
    expect(fixture.observed.map((seen) => seen.result)).toStrictEqual([result])
  })

  it('is the same without any hook in the way [core-10.1.default]', async () => {
    const fixture = new PipelineFixture({ traced: false })
    expect(await fixture.call('echo', { text: 'hi' })).toStrictEqual({
      isError: false,
      value: 'hi',
      content: [{ type: 'text', text: 'hi' }]
    })
    expect(fixture.trace).toEqual(['body:c1', 'finalize:c1'])
  })
})

describe('arguments (core.md §8.3)', () => {
  const mutating = defineTool({
    name: 'mutating',
    description: 'Writes to its arguments.',
    parameters: { nested: { type: 'object', additionalProperties: true, required: true } },
    output: { schema: { type: 'string' }, render: (_args, value) => text(value) },
    execute: ({ nested }) => {
      ;(nested as Record<string, unknown>)['x'] = 1
      return 'written'
    }
  })

  it('C002 are frozen for the body, and neither frozen nor shared for the caller [core-8.3] [core-10.2]', async () => {
    const fixture = new PipelineFixture()
    fixture.register(mutating)
    const args = { nested: { x: 0 } }
    for (const _ of [1, 2]) {
      const result = await fixture.call('mutating', args)
      expect(result).toMatchObject({ isError: true, error: { message: expect.stringMatching(/read.only|assign/) } })
      expect(codeOf(result)).toBe('none')
    }
    expect(args).toEqual({ nested: { x: 0 } })
    expect(Object.isFrozen(args) || Object.isFrozen(args.nested)).toBe(false)
    expect(fixture.observed[0]?.exec.arguments).not.toBe(args)
  })

  it.each([
    ['exec.arguments', (exec: any) => (exec.arguments = { text: 'other' })],
    ['a nested argument', (exec: any) => (exec.arguments.text = 'other')],
    ['exec.name', (exec: any) => (exec.name = 'boom')],
    ['exec.signal', (exec: any) => (exec.signal = aborted)],
    ['a new member', (exec: any) => (exec.extra = 1)]
  ])('C002 a pre hook that assigns %s fails, and changes nothing [core-8.7] [core-10.2]', async (_what, assign) => {
    const fixture = new PipelineFixture()
    fixture.hook('preExecute', (exec, next) => {
      expect(() => assign(exec)).toThrow(TypeError)
      return next()
    })
    expect(await fixture.call('echo', { text: 'mine' })).toMatchObject({ isError: false, value: 'mine' })
  })

  class Custom {
    a = 1
  }
  const cyclic: Record<string, unknown> = {}
  cyclic['self'] = cyclic
  it.each<[string, unknown]>([
    ['a Map', new Map()],
    ['a class instance', new Custom()],
    ['a Date', new Date()],
    // oxlint-disable-next-line no-sparse-arrays
    ['a sparse array', [1, , 2]],
    ['a function inside', { f: () => 1 }],
    ['a cycle', cyclic],
    ['-0', { n: -0 }],
    ['undefined inside', [undefined]]
  ])(
    'C008 %s fails without info, policy or body, and is observed once [core-8.4.failure] [core-10.1.not-early]',
    async (_what, args) => {
      const fixture = new PipelineFixture()
      const result = await fixture.call('raw', args)
      expect(codeOf(result)).toBe('none')
      expect(messageIn(result)).toContain('lossless JSON')
      expect(fixture.stages).toEqual(['finalize', 'observer'])
      expect(fixture.observed[0]?.exec.arguments).toBeUndefined()
    }
  )

  it('C008 a throwing getter gives its message, and even a coded error gives no info [core-8.4.getter]', async () => {
    const fixture = new PipelineFixture()
    const nested = {
      get a() {
        throw new TestError('NOPE', 'no reading')
      }
    }
    expect(await fixture.call('raw', nested)).toMatchObject({ isError: true, error: { message: 'no reading' } })
    const input = fixture.input('raw')
    Object.defineProperty(input, 'arguments', {
      get() {
        throw new TestError('NOPE', 'no arguments')
      }
    })
    const result = await fixture.pipeline.execute(input)
    expect(result).toMatchObject({ isError: true, error: { message: 'no arguments' } })
    expect(codeOf(result)).toBe('none')
  })

  it('a fault found by the edge fails the call with its info, as core.md §2.8 says [core-2.8.unsafe-arguments]', async () => {
    const fixture = new PipelineFixture()
    const argumentsError = new ToolArgsError(['"id" is beyond 2^53 - 1'])
    const result = await fixture.call('raw', { id: 1 }, { argumentsError })
    expect(result).toMatchObject({
      error: { message: expect.stringContaining('"id"'), info: { name: 'ToolArgsError', code: 'INVALID_ARGS' } }
    })
    expect(fixture.stages).toEqual(['finalize', 'observer'])
  })
})

describe('the input (core.md §8.1, §8.2)', () => {
  it('is read once a field, the arguments last, after the tool was looked up [core-8.1]', async () => {
    const reads: string[] = []
    const fixture = new PipelineFixture({
      traced: false,
      catalogue: (registry) => ({
        lookup: (name, scope) => (reads.push('lookup'), registry.lookup(name, scope)),
        isCollapsed: (...args) => registry.isCollapsed(...args)
      })
    })
    const whole = { rootCallId: 'root', agent: fixture.agent('a'), parent: Symbol('outer'), ...fixture.input('echo') }
    const input = new Proxy(whole, {
      get: (target, key) => (reads.push(String(key)), Reflect.get(target, key))
    }) as ExecutionInput
    const { call } = await fixture.pipeline.prepare(input)
    expect(call.exec).toMatchObject({
      callId: 'c1',
      rootCallId: 'root',
      name: 'echo',
      agent: whole.agent,
      parent: whole.parent
    })
    const fields = reads.filter((read) => read !== 'lookup')
    expect(fields.toSorted()).toEqual([...new Set(fields)].toSorted())
    expect(reads.indexOf('lookup')).toBe(reads.indexOf('arguments') - 1)
    expect(reads.at(-1)).toBe('arguments')
  })

  it('needs a signal: none is made up [core-1.signal]', async () => {
    const fixture = new PipelineFixture()
    const { signal: _signal, ...input } = fixture.input('echo')
    await expect(fixture.pipeline.execute(input as ExecutionInput)).rejects.toThrow(TypeError)
    expect(fixture.trace).toEqual([])
  })

  it('rootCallId defaults to callId; agent and parent are absent when not given [core-1.root-call-id] [core-1.token]', async () => {
    const fixture = new PipelineFixture()
    const { call } = await fixture.pipeline.prepare(fixture.input('echo'))
    expect(call.exec.rootCallId).toBe('c1')
    expect('agent' in call.exec || 'parent' in call.exec).toBe(false)
    expect(typeof call.exec.token).toBe('symbol')
    const other = await fixture.pipeline.prepare(fixture.input('echo'))
    expect(other.call.exec.token).not.toBe(call.exec.token)
  })

  it('the finalizer is that of the tool visible at entry, the body that of dispatch [core-8.2.captured]', async () => {
    const fixture = new PipelineFixture()
    const tool = (word: string) =>
      defineTool({
        name: 'swapped',
        description: word,
        parameters: {},
        output: { schema: { type: 'string' }, render: (_args, value) => text(value) },
        finalizeContent: (_exec, result) => [...result.content, { type: 'text', text: `final ${word}` }],
        execute: () => `body ${word}`
      })
    const undo = fixture.register(tool('old'))
    fixture.hook('preExecute', (_exec, next) => {
      undo()
      fixture.register(tool('new'))
      return next()
    })
    const result = await fixture.call('swapped')
    expect(result).toMatchObject({ value: 'body new', content: [{ text: 'body new' }, { text: 'final old' }] })
  })

  it('a tool that appears only after entry has no finalizer [core-8.2.none]', async () => {
    const fixture = new PipelineFixture()
    fixture.hook('preExecute', (_exec, next) => {
      fixture.register(
        defineTool({
          name: 'late',
          description: 'Comes late.',
          parameters: {},
          output: { schema: { type: 'string' }, render: (_args, value) => text(value) },
          finalizeContent: () => text('never'),
          execute: () => 'ran'
        })
      )
      return next()
    })
    expect(await fixture.call('late')).toMatchObject({ value: 'ran', content: [{ text: 'ran' }] })
  })
})

describe('a call that ends at its entry (core.md §8.5, §8.6)', () => {
  it('C092 aborted: only finalizer and observer, arguments materialised all the same [core-8.6] [core-10.1.not-early] [core-30.aborted-before-dispatch]', async () => {
    const fixture = new PipelineFixture()
    const result = await fixture.call('echo', { text: 'hi' }, { signal: aborted })
    expect(result).toStrictEqual({
      isError: true,
      error: {
        message: expect.any(String),
        info: { name: 'AbortError', code: 'ABORTED_BEFORE_DISPATCH' }
      },
      content: [{ type: 'text', text: `Error: ${messageIn(result)}` }]
    })
    expect(fixture.stages).toEqual(['finalize', 'observer'])
    const seen = fixture.observed[0]?.exec.arguments
    expect(seen).toEqual({ text: 'hi' })
    expect(Object.isFrozen(seen)).toBe(true)
  })

  describe('collapsed by code mode', () => {
    const collapsing = () => new PipelineFixture({ mode: 'code' })

    it('is UNKNOWN_TOOL before any hook, without the finalizer, and says where the tool is [core-7.9.collapse] [core-8.5.unknown] [core-8.5.finalizer]', async () => {
      const fixture = collapsing()
      const result = await fixture.call('echo')
      expect(codeOf(result)).toBe('UNKNOWN_TOOL')
      expect(messageIn(result)).toContain('run_code')
      expect(fixture.stages).toEqual(['observer'])
    })

    it('keeps the finalizer when aborted [core-8.5.aborted] [core-8.5.finalizer]', async () => {
      const fixture = collapsing()
      expect(codeOf(await fixture.call('echo', {}, { signal: aborted }))).toBe('ABORTED_BEFORE_DISPATCH')
      expect(fixture.stages).toEqual(['finalize', 'observer'])
    })

    it.each([
      [false, ['observer']],
      [true, ['finalize', 'observer']]
    ])('with lossy arguments (aborted: %s) fails for the arguments [core-8.5.finalizer]', async (isAborted, stages) => {
      const fixture = collapsing()
      const result = await fixture.call('raw', new Map(), isAborted ? { signal: aborted } : {})
      expect(codeOf(result)).toBe('none')
      expect(messageIn(result)).toContain('lossless')
      expect(fixture.stages).toEqual(stages)
    })

    it('lets a running body through, and an unknown name to policy [core-7.9.nested] [core-7.9.invisible]', async () => {
      const fixture = collapsing()
      expect(await fixture.call('echo', { text: 'in' }, { parent: Symbol('outer') })).toMatchObject({ value: 'in' })
      const unknown = await fixture.call('ghost')
      expect(messageIn(unknown)).not.toContain('run_code')
      expect(fixture.stages.filter((stage) => stage === 'pre')).toHaveLength(2)
    })
  })
})
