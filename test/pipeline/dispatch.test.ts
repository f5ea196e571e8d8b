import { getEventListeners } from 'node:events'
import { describe, expect, it } from 'vitest'
import type { RunContext } from '../../server/pipeline/execution.ts'
import type { ToolResult } from '../../server/pipeline/result.ts'
import {
  PipelineFixture,
  TestError,
  codeOf,
  contextFrom,
  contextsOf,
  deferred,
  isPending,
  messageIn
} from '../helpers/pipeline-fixture.ts'

const success = (value: unknown, more: object = {}): ToolResult =>
  ({ isError: false, value, content: [{ type: 'text', text: 'ignored' }], ...more }) as ToolResult

describe('a body that throws (core.md §12.7)', () => {
  it.each<[unknown, string, string]>([
    [new Error('exploded'), 'exploded', 'none'],
    [{ message: 'm' }, 'm', 'none'],
    ['str', 'str', 'none'],
    [{ code: 500 }, '[object Object]', 'none'],
    [new TestError('CODED', 'coded'), 'coded', 'CODED'],
    [undefined, 'undefined', 'none']
  ])('C066 %o [core-12.7.message] [core-12.7.info]', async (thrown, message, code) => {
    const fixture = new PipelineFixture()
    fixture.boom = () => {
      throw thrown
    }
    const result = await fixture.call('boom')
    expect(result).toMatchObject({ error: { message }, content: [{ type: 'text', text: `Error: ${message}` }] })
    expect(codeOf(result)).toBe(code)
    expect(Object.keys(result)).toEqual(['isError', 'error', 'content'])
    expect(fixture.stages).toContain('post')
  })

  it('C022 typed arguments: INVALID_ARGS from inside the body stage, the author never entered [core-5.2.stage] [core-30.tool-args]', async () => {
    const fixture = new PipelineFixture()
    const result = await fixture.call('need')
    expect(result).toMatchObject({
      isError: true,
      error: { message: expect.stringContaining('path'), info: { name: 'ToolArgsError', code: 'INVALID_ARGS' } },
      content: [{ text: expect.stringMatching(/^Error: /) }]
    })
    expect(fixture.stages).toEqual(['pre', 'guard', 'around:before', 'around:after', 'post', 'finalize', 'observer'])
  })

  it('C026 untyped registration: the body runs on anything [core-5.6]', async () => {
    expect(await new PipelineFixture().call('raw', {})).toMatchObject({ value: 'object' })
  })
})

describe('wrappers (core.md §12)', () => {
  it('C070 never see a rejection of the body [core-12.1]', async () => {
    const fixture = new PipelineFixture()
    fixture.boom = () => Promise.reject(new TestError('CODED', 'coded'))
    let seen: ToolResult | undefined
    fixture.hook('execute', async (_exec, next) => (seen = await next()))
    const result = await fixture.call('boom')
    expect(seen).toEqual(result)
    expect(seen).toMatchObject({ error: { info: { name: 'TestError', code: 'CODED' } } })
  })

  it('C090 see frozen results, successes and failures, which they cannot change [core-12.13]', async () => {
    const fixture = new PipelineFixture()
    fixture.hook('execute', async (_exec, next) => {
      const result = (await next()) as any
      expect(() => (result.value = 'x')).toThrow(TypeError)
      expect(() => (result.content[0].text = 'x')).toThrow(TypeError)
      expect(() => result.content.push('x')).toThrow(TypeError)
      return result
    })
    expect(await fixture.call('echo', { text: 'hi' })).toMatchObject({ value: 'hi', content: [{ text: 'hi' }] })
    expect(messageIn(await fixture.call('boom'))).toBe('exploded')
  })

  it('C071 a short circuit renders by the tool, without the body, through post-execute [core-12.9] [core-12.8.success]', async () => {
    const fixture = new PipelineFixture()
    fixture.hook('execute', () => success('v', { meta: { mine: 1 }, concludesTurn: true, extra: 1 }))
    expect(await fixture.call('meta', { v: 'x' })).toStrictEqual({
      isError: false,
      value: 'v',
      content: [{ type: 'text', text: 'v' }],
      meta: { projected: 'v' }
    })
    expect(fixture.stages).not.toContain('body')
    expect(fixture.stages).toContain('post')
  })

  it('a copy of the success keeps its value, its contexts and its conclusion [core-12.8.success] [core-19.3.preserved]', async () => {
    const fixture = new PipelineFixture()
    fixture.boom = (exec) => (exec.concludeTurn(), 7)
    fixture.hook('execute', async (_exec, next) => ({
      ...(await next()),
      content: [],
      additionalContexts: [contextFrom('w')]
    }))
    const result = await fixture.call('boom')
    expect(result).toMatchObject({ value: 7, content: [{ text: '7' }], concludesTurn: true })
    expect(contextsOf(result)).toEqual(['w'])
  })

  it('a success of another call is made anew as well [core-12.8.success]', async () => {
    const fixture = new PipelineFixture()
    let cached: ToolResult | undefined
    fixture.hook('execute', async (_exec, next) => (cached ??= await next()))
    await fixture.call('echo', { text: 'a' })
    const second = await fixture.call('echo', { text: 'b' })
    expect(second).toMatchObject({ value: 'a', content: [{ text: 'a' }] })
    expect(second).not.toBe(cached)
  })

  it('a failure of their own is kept, field by field, detached and frozen [core-12.8.failure] [core-1.meta-null]', async () => {
    const fixture = new PipelineFixture()
    const own = {
      isError: true as const,
      error: { message: 'mine', info: { name: 'N', code: 'C', more: 1 }, more: 1 },
      content: [{ type: 'text', text: 'as written' }],
      meta: null,
      additionalContexts: [contextFrom('w')],
      extra: 1
    }
    fixture.hook('execute', () => own)
    let seen: any
    fixture.hook('postExecute', (_exec, result, next) => ((seen = result), next()))
    expect(await fixture.call('echo')).toStrictEqual({
      isError: true,
      error: { message: 'mine', info: { name: 'N', code: 'C' } },
      content: [{ type: 'text', text: 'as written' }],
      meta: null,
      additionalContexts: [contextFrom('w')]
    })
    expect(Object.isFrozen(seen.content[0])).toBe(true)
    expect(Object.isFrozen(own.content[0])).toBe(false)
  })

  it('a failure without info, meta and contexts has none [core-1.presence]', async () => {
    const fixture = new PipelineFixture()
    fixture.hook('execute', () => ({
      isError: true,
      error: { message: 'm' },
      content: [],
      additionalContexts: undefined as never
    }))
    expect(await fixture.call('echo')).toStrictEqual({ isError: true, error: { message: 'm' }, content: [] })
  })

  it.each([undefined, []])('contexts of %j are none: the key is absent', async (additionalContexts) => {
    for (const outcome of [success('v'), { isError: true, error: { message: 'm' }, content: [] }]) {
      const fixture = new PipelineFixture()
      fixture.hook('execute', () => ({ ...outcome, additionalContexts }) as never)
      fixture.hook('postExecute', async (_exec, _result, next) => ({ ...(await next()), additionalContexts }) as never)
      expect('additionalContexts' in (await fixture.call('echo'))).toBe(false)
    }
  })

  it('a lossy failure of theirs still goes through post-execute, and then fails for that', async () => {
    const fixture = new PipelineFixture()
    fixture.hook('execute', () => ({
      isError: true,
      error: { message: 'm', info: { name: 'N', code: 'C' } },
      content: [{ type: 'x', f: (() => 1) as never }]
    }))
    const result = await fixture.call('echo')
    expect(codeOf(result)).toBe('none')
    expect(messageIn(result)).toContain('lossless')
    expect(fixture.stages.filter((stage) => stage === 'post' || stage === 'finalize')).toEqual(['post', 'finalize'])
  })

  it.each<[string, unknown, string]>([
    ['undefined [core-9.5.around-value]', undefined, 'none'],
    ['a string', 'text', 'none'],
    ['an object without isError', {}, 'none'],
    ['a truthy isError', { isError: 1, value: 1 }, 'none'],
    [
      'a success without a value [core-9.5.around-value] [core-12.8.final] [core-30.tool-output]',
      { isError: false, content: [] },
      'INVALID_TOOL_OUTPUT'
    ],
    ['a success of the wrong type [core-12.8.final]', { isError: false, value: 1 }, 'INVALID_TOOL_OUTPUT'],
    ['a lossy success', { isError: false, value: undefined }, 'INVALID_TOOL_OUTPUT'],
    ['a success with contexts that are no list', { isError: false, value: 'x', additionalContexts: 'x' }, 'none'],
    ['a failure without error [core-9.5.around-failure]', { isError: true, content: [] }, 'none'],
    ['a failure without a message', { isError: true, error: {}, content: [] }, 'none'],
    [
      'a failure with info: undefined [core-9.5.around-failure]',
      { isError: true, error: { message: 'm', info: undefined }, content: [] },
      'none'
    ],
    [
      'a failure with half an info',
      { isError: true, error: { message: 'm', info: { name: 'N' } }, content: [] },
      'none'
    ],
    [
      'a failure with an odd info',
      { isError: true, error: { message: 'm', info: { code: 'C' } }, content: [] },
      'none'
    ],
    ['a failure without content', { isError: true, error: { message: 'm' } }, 'none'],
    [
      'a failure with contexts that are no list',
      { isError: true, error: { message: 'm' }, content: [], additionalContexts: {} },
      'none'
    ]
  ])('that return %s fail the call, past post-execute (core.md §9.5)', async (_what, outcome, code) => {
    const fixture = new PipelineFixture()
    fixture.hook('execute', () => outcome as never, { prepend: true })
    const result = await fixture.call('echo')
    expect(codeOf(result)).toBe(code)
    expect(Object.keys(result)).toEqual(['isError', 'error', 'content'])
    expect(fixture.stages).toEqual(['pre', 'guard', 'finalize', 'observer'])
  })

  it('a success for a tool that is gone is UNKNOWN_TOOL, past post-execute [core-12.8.final] [core-30.tool-not-found]', async () => {
    const fixture = new PipelineFixture()
    const agent = fixture.agent('a')
    const undo = fixture.register(
      {
        name: 'mine',
        description: '',
        parameters: { type: 'object' },
        output: { schema: {}, render: () => [] },
        execute: () => 1
      },
      agent.scope
    )
    fixture.hook('execute', async (_exec, next) => {
      const result = await next()
      undo()
      return { ...result }
    })
    expect(codeOf(await fixture.call('mine', {}, { agent }))).toBe('UNKNOWN_TOOL')
    expect(fixture.stages).not.toContain('post')
  })

  it.each([
    [new Error('w'), 'none'],
    [new TestError('W', 'w'), 'W']
  ])(
    'C074 a throw (%s) fails the call, past post-execute, and loses the contexts [core-12.10]',
    async (error, code) => {
      const fixture = new PipelineFixture()
      fixture.boom = (exec) => (exec.deferContext(contextFrom('n')), 1)
      fixture.hook('execute', async (_exec, next) => {
        await next()
        throw error
      })
      const result = await fixture.call('boom')
      expect(result).toMatchObject({ error: { message: 'w' } })
      expect(codeOf(result)).toBe(code)
      expect(contextsOf(result)).toBeUndefined()
      expect(fixture.stages).toEqual(['pre', 'guard', 'around:before', 'body', 'finalize', 'observer'])
    }
  )

  it('retry: each next() runs the inner chain and the body again, and deferred contexts add up [core-9.4.retry]', async () => {
    const fixture = new PipelineFixture()
    let attempts = 0
    fixture.boom = (exec) => {
      attempts += 1
      exec.deferContext(contextFrom(`n${attempts}`))
      if (attempts < 3) throw new Error('flaky')
      return attempts
    }
    fixture.hook(
      'execute',
      async (_exec, next) => {
        for (;;) {
          const result = await next()
          if (!result.isError) return result
        }
      },
      { prepend: true }
    )
    const result = await fixture.call('boom')
    expect(result).toMatchObject({ value: 3 })
    expect(contextsOf(result)).toEqual(['n1', 'n2', 'n3'])
    expect(fixture.stages.filter((stage) => stage === 'around:before')).toHaveLength(3)
  })

  it('the first attempt may win: any result that next() produced is kept as it is [core-12.8.kept]', async () => {
    const fixture = new PipelineFixture()
    let attempts = 0
    fixture.boom = () => (attempts += 1)
    fixture.hook('execute', async (_exec, next) => {
      const first = await next()
      await next()
      return first
    })
    expect(await fixture.call('boom')).toMatchObject({ value: 1 })
    expect(attempts).toBe(2)
  })

  it('a concurrent second next() fails the call once both bodies are done [core-9.4.concurrent]', async () => {
    const fixture = new PipelineFixture()
    fixture.hook('execute', (_exec, next) => {
      const first = next()
      void next().catch(() => {})
      return first
    })
    const call = fixture.start('gate', { id: 'g' })
    await fixture.entered('g')
    expect(await isPending(call.result)).toBe(true)
    fixture.release('g')
    expect(messageIn(await call.result)).toContain('next()')
    expect(fixture.stages).not.toContain('post')
  })

  it('one that returns early waits for the body it started (core.md §12.7) [core-12.7.awaited]', async () => {
    const fixture = new PipelineFixture()
    fixture.hook('execute', (_exec, next) => (void next(), success('early')))
    const call = fixture.start('gate', { id: 'g' })
    await fixture.entered('g')
    expect(await isPending(call.result)).toBe(true)
    fixture.release('g')
    expect(await call.result).toMatchObject({ value: 'early' })
  })

  it('are given the tool that the caller sees', async () => {
    const fixture = new PipelineFixture()
    const names: unknown[] = []
    fixture.hook('execute', (_exec, next, tool) => (names.push(tool?.name), next()))
    await fixture.call('echo')
    await fixture.call('ghost')
    expect(names).toEqual(['echo', undefined])
  })
})

describe('signals (core.md §12.2, §12.3)', () => {
  const capture = (fixture: PipelineFixture) => {
    const seen: AbortSignal[] = []
    fixture.boom = (exec) => (seen.push(exec.signal), null)
    return seen
  }

  it('C076 without a wrapper the body gets the caller’s very signal [core-12.3.same]', async () => {
    const fixture = new PipelineFixture()
    const seen = capture(fixture)
    const call = fixture.start('boom')
    await call.result
    expect(seen).toEqual([call.controller.signal])
    expect(seen[0]).toBe(call.controller.signal)
  })

  it('C076 a wrapper’s own signal is fused with the caller’s for the body, and put back after it [core-12.2.signal] [core-12.3.fused] [core-12.3.released] [core-12.3.restored]', async () => {
    const fixture = new PipelineFixture()
    const own = new AbortController()
    const bodySignal = deferred<AbortSignal>()
    fixture.boom = async (exec) => {
      bodySignal.resolve(exec.signal)
      await new Promise((resolve) => exec.signal.addEventListener('abort', resolve))
      return null
    }
    const after: AbortSignal[] = []
    fixture.hook('execute', async (exec, next) => {
      exec.signal = own.signal
      const result = await next()
      after.push(exec.signal)
      return result
    })
    fixture.hook('postExecute', (exec, _result, next) => (after.push(exec.signal), next()))
    const call = fixture.start('boom')
    const seen = await bodySignal.promise
    expect(seen).not.toBe(call.controller.signal)
    expect(seen).not.toBe(own.signal)
    call.controller.abort('why')
    expect(seen.reason).toBe('why')
    expect(own.signal.aborted).toBe(false)
    await call.result
    expect(after[0]).toBe(own.signal)
    expect(after[1]).toBe(call.controller.signal)
    expect(getEventListeners(own.signal, 'abort')).toEqual([])
    expect(getEventListeners(call.controller.signal, 'abort')).toEqual([])
  })

  it('only a signal can be set, and only around [core-12.2.nothing-else] [core-8.7]', async () => {
    const fixture = new PipelineFixture()
    const seen = capture(fixture)
    const own = new AbortController().signal
    fixture.hook('execute', (exec, next) => {
      expect(() => (exec.signal = undefined as never)).toThrow(TypeError)
      expect(() => ((exec as any).name = 'other')).toThrow(TypeError)
      exec.signal = own
      return next()
    })
    fixture.hook('postExecute', (exec, _result, next) => {
      expect(() => (exec.signal = own)).toThrow(TypeError)
      return next()
    })
    expect(await fixture.call('boom')).toMatchObject({ isError: false })
    expect(seen[0]?.aborted).toBe(false)
  })
})

describe('what a body says to the loop (core.md §19)', () => {
  it('C084 contexts: deferred in call order, then the wrapper’s, then the decision’s [core-12.11] [core-13.2.contexts] [core-19.1.order] [core-19.2]', async () => {
    const fixture = new PipelineFixture()
    fixture.boom = async ({ deferContext }: RunContext) => {
      deferContext(contextFrom('n1'))
      await Promise.resolve()
      deferContext(contextFrom('n2'))
      return 1
    }
    let seen: ToolResult | undefined
    fixture.hook('execute', async (_exec, next) => {
      seen = await next()
      return { ...seen, additionalContexts: [contextFrom('w')] }
    })
    fixture.hook('postExecute', async (_exec, _result, next) => {
      const decision = await next()
      return { ...decision, additionalContexts: [contextFrom('p'), ...(decision.additionalContexts ?? [])] }
    })
    const result = await fixture.call('boom')
    expect(contextsOf(result)).toEqual(['n1', 'n2', 'w', 'p'])
    expect(result.additionalContexts?.[0]).toEqual(contextFrom('n1'))
    expect('additionalContexts' in seen!).toBe(false)
  })

  it('survive a throw of the body', async () => {
    const fixture = new PipelineFixture()
    fixture.boom = (exec) => {
      exec.deferContext(contextFrom('n'))
      throw new Error('x')
    }
    expect(contextsOf(await fixture.call('boom'))).toEqual(['n'])
  })

  it('concludeTurn bears detaching, and counts only on a success [core-19.3.success] [core-19.3.detached]', async () => {
    const fixture = new PipelineFixture()
    fixture.boom = ({ concludeTurn }) => (concludeTurn(), 1)
    expect(await fixture.call('boom')).toMatchObject({ concludesTurn: true })
    fixture.boom = ({ concludeTurn }) => {
      concludeTurn()
      throw new Error('x')
    }
    expect('concludesTurn' in (await fixture.call('boom'))).toBe(false)
  })

  it('is not heard before and after the around stage [core-19.1.late]', async () => {
    const fixture = new PipelineFixture()
    fixture.hook('preExecute', (exec, next) => {
      const early = exec as RunContext
      early.deferContext(contextFrom('early'))
      early.concludeTurn()
      early.progress('early')
      return next()
    })
    let kept: RunContext | undefined
    const chunks: string[] = []
    fixture.boom = (exec) => ((kept = exec), 1)
    fixture.hook('postExecute', async () => {
      kept?.deferContext(contextFrom('late'))
      kept?.concludeTurn()
      kept?.progress('late')
      return { kind: 'accept', value: 2 }
    })
    const result = await fixture.call('boom', {}, { onProgress: (chunk) => chunks.push(chunk) })
    expect(result).toStrictEqual({ isError: false, value: 2, content: [{ type: 'text', text: '2' }] })
    expect(chunks).toEqual([])
  })

  it('progress goes to the caller; what its listener throws does not reach the body', async () => {
    const fixture = new PipelineFixture()
    const chunks: string[] = []
    fixture.boom = ({ progress }) => {
      progress('a')
      progress('b')
      expect(() => progress(1 as never)).toThrow(TypeError)
      return null
    }
    const listener = (chunk: string) => {
      chunks.push(chunk)
      if (chunk === 'a') throw new Error('deaf')
    }
    expect(await fixture.call('boom', {}, { onProgress: listener })).toMatchObject({ isError: false })
    expect(chunks).toEqual(['a', 'b'])
    expect(fixture.warnings).toMatchObject([{ details: { tool: 'boom', callId: 'c1', error: 'deaf' } }])
    expect(await fixture.call('boom')).toMatchObject({ isError: false })
  })

  it('a nested call has its own policy and observers, and no metadata [core-1.parent] [core-20]', async () => {
    const fixture = new PipelineFixture()
    fixture.boom = async (exec) => {
      const inner = await fixture.call(
        'meta',
        { v: 'x' },
        { parent: exec.token, rootCallId: exec.rootCallId, signal: exec.signal }
      )
      return { hasMeta: 'meta' in inner }
    }
    expect(await fixture.call('boom')).toMatchObject({ value: { hasMeta: false } })
    expect(fixture.trace.filter((entry) => entry.startsWith('pre') || entry.startsWith('observer'))).toEqual([
      'pre:c1',
      'pre:c2',
      'observer:c2',
      'observer:c1'
    ])
    expect(fixture.observed[0]?.exec).toMatchObject({ rootCallId: 'c1', parent: fixture.observed[1]?.exec.token })
  })
})
