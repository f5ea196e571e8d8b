import { describe, expect, it } from 'vitest'
import { loadConfig } from '../../server/config/load.ts'
import { deny } from '../../server/pipeline/decisions.ts'
import { contextFrom, type LoggedEvent, startApp, type TestApp } from '../helpers/app.ts'
import { bareTool } from '../helpers/bare-tool.ts'
import { CallFixture } from '../helpers/call-fixture.ts'
import { FlakyLog } from '../helpers/flaky-log.ts'
import { deferred } from '../helpers/pipeline-fixture.ts'
import { until } from '../helpers/until.ts'

const codes = (body: any): unknown[] => body.results.map((result: any) => result.error?.info?.code)
const gate = (callId: string, name = 'gate') => ({ name, callId, arguments: { id: callId } })
const ofType = (events: readonly LoggedEvent[], type: string) => events.filter((event) => event.type === type)

/** Every stage that a call meets, as `stage:callId`. */
function watch(app: TestApp): string[] {
  const seen: string[] = []
  const note = (stage: string, callId: string) => void seen.push(`${stage}:${callId}`)
  const { tools } = app.app
  tools.addHook('preExecute', (exec, next) => (note('pre', exec.callId), next()))
  tools.guard((exec) => (note('guard', exec.callId), undefined))
  tools.addHook('execute', (exec, next) => (note('around', exec.callId), next()))
  tools.addHook('postExecute', (exec, _result, next) => (note('post', exec.callId), next()))
  tools.addHook('onResult', (exec) => note('observer', exec.callId))
  tools.register(
    bareTool('watched', {
      execute: (_args, { callId }) => (note('body', callId), 'done'),
      finalizeContent: ({ callId }) => (note('finalize', callId), undefined)
    })
  )
  return seen
}

describe('one plain call (core.md §22.2)', () => {
  class HeldLog extends FlakyLog {
    readonly released = deferred()
    override async append(request: Parameters<FlakyLog['append']>[0]) {
      if (request.events?.some(({ type }) => type === 'tool/call') === true) await this.released.promise
      return super.append(request)
    }
  }

  it('is logged before policy, and its body waits until the log has acknowledged it [core-22.2.single]', async () => {
    const log = new HeldLog()
    const fixture = new CallFixture(log)
    const steps: string[] = []
    const append = log.append.bind(log)
    log.append = (request) => (steps.push(`append ${request.events?.at(-1)?.type}`), append(request))
    const prepared = deferred()
    fixture.tools.addHook('preExecute', (_exec, next) => (steps.push('policy'), prepared.resolve(), next()))
    fixture.body = () => (steps.push('body'), 'ok')
    const call = fixture.invoke('c1')
    await prepared.promise
    await new Promise((resolve) => setImmediate(resolve))
    expect(steps).toEqual(['append tool/call', 'policy'])
    log.released.resolve()
    await call
    expect(steps).toEqual(['append tool/call', 'policy', 'body', 'append tool/result'])
  })
})

describe('the calls of a batch (core.md §22)', () => {
  it('C106 the cap is 10 unless configured, and a positive integer [core-22.cap]', () => {
    const configured = (cap?: string) =>
      loadConfig({ flags: new Map(cap === undefined ? [] : [['calls.maxParallelToolCalls', cap]]) }).config.calls
    expect(configured().maxParallelToolCalls).toBe(10)
    expect(configured('1').maxParallelToolCalls).toBe(1)
    for (const cap of ['0', '-1', '1.5', 'many']) expect(() => configured(cap)).toThrow(/maxParallelToolCalls/)
  })

  it('C114 empty text is {}, text that is no JSON is itself the arguments; the log has both as they came [core-22.1.empty] [core-22.1.invalid] [core-23.tool-call]', async () => {
    const app = await startApp()
    const seen: unknown[] = []
    app.app.tools.register(bareTool('keep', { execute: (args) => (seen.push(args), 'kept') }))
    const raws = ['', 'not json', ' { "a" : 1 } ', '"text"']
    const { body } = await app.batch([
      ...raws.map((rawArguments, index) => ({ name: 'keep', callId: `c${index}`, rawArguments })),
      { name: 'need', callId: 'typed', rawArguments: 'not json' }
    ])
    expect(seen).toEqual([{}, 'not json', { a: 1 }, 'text'])
    expect(codes(body)).toEqual([undefined, undefined, undefined, undefined, 'INVALID_ARGS'])
    expect(body.results[4].error.message).toContain('arguments')
    const calls = ofType(await app.events(), 'tool/call')
    expect(calls.map(({ data }) => data)).toEqual(
      [...raws, 'not json'].map((raw, index) => ({
        turn: 1,
        step: 1,
        callId: index < 4 ? `c${index}` : 'typed',
        name: index < 4 ? 'keep' : 'need',
        arguments: raw
      }))
    )
    for (const call of calls) expect(Object.keys(call)).not.toContain('surfaceOp')
  })

  it('C111 those never started get adjacent pairs, and nothing else knows of them [core-22.5.before] [core-22.5.pairs] [core-22.5.silent] [core-15.3.synthetic] [core-17.never-started]', async () => {
    const app = await startApp({ 'calls.maxConcurrent': '1' })
    const seen = watch(app)
    const blocker = app.post('/invoke', { ...gate('blocker'), session: 'other' })
    await app.entered('blocker')
    seen.length = 0
    app.app.liveEvents.subscribe(({ type, data }) => {
      if (type === 'tools/result') seen.push(`live:${(data as { callId: string }).callId}`)
    })
    const batch = app.batch(['c1', 'c2'].map((callId) => ({ name: 'watched', callId })))
    for (const id of ['c1', 'c2']) {
      await app.state(id, 'queued')
      await app.cancel(id)
    }
    const { body } = await batch
    expect(codes(body)).toEqual(['ABORTED_BEFORE_DISPATCH', 'ABORTED_BEFORE_DISPATCH'])
    const pairs = (await app.events()).filter(({ type }) => type.startsWith('tool/'))
    const at = pairs[0]?.seq ?? -1
    expect(pairs.map(({ type, seq, sourceEventSeqs }) => [type, seq - at, sourceEventSeqs])).toEqual([
      ['tool/call', 0, undefined],
      ['tool/result', 1, [at]],
      ['tool/call', 2, undefined],
      ['tool/result', 3, [at + 2]]
    ])
    expect(pairs[1]?.data.error).toEqual({ name: 'AbortError', code: 'ABORTED_BEFORE_DISPATCH' })
    expect(seen).toEqual([])
    app.release('blocker')
    await blocker
    await app.batch([{ name: 'watched', callId: 'c3' }])
    expect(seen).toContain('finalize:c3')
    expect(seen.filter((stage) => stage.startsWith('live:'))).toEqual(['live:blocker', 'live:c3'])
  })

  it('observers are told before the result is stored [core-15.3.before]', async () => {
    const app = await startApp()
    const heads = new Map<string, number>()
    app.app.tools.addHook('onResult', ({ callId }) => heads.set(callId, app.app.eventLog.head))
    await app.batch([
      { name: 'echo', callId: 'c1' },
      { name: 'echo', callId: 'c2' }
    ])
    for (const result of ofType(await app.events(), 'tool/result')) {
      const head = heads.get(result.data.message.source.callId)
      expect(head).toBeLessThan((result as unknown as { position: number }).position)
    }
    expect(heads.size).toBe(2)
  })

  it('C115 the batch tells that a result concluded, and its siblings run all the same [core-22.8] [core-24.2]', async () => {
    const app = await startApp()
    app.boom = (exec) => (exec.concludeTurn(), 1)
    const { body } = await app.batch([
      { name: 'boom', callId: 'c1' },
      { name: 'echo', callId: 'c2' }
    ])
    expect([body.concluded, codes(body)]).toEqual([true, [undefined, undefined]])
    expect((await app.log()).slice(-3)).toEqual(['tool/result c2', 'step/end 1/1', 'turn/end 1 completed'])
    expect((await app.batch([{ name: 'echo' }])).body.concluded).toBe(false)
  })

  it('what one call does to the registry counts for those after it [core-22.9]', async () => {
    const app = await startApp()
    const undo = app.app.tools.register(bareTool('old'))
    app.boom = () => {
      undo()
      app.app.tools.register(bareTool('new', { isConcurrencySafe: () => true }))
      return 1
    }
    const { body } = await app.batch([{ name: 'old' }, { name: 'boom' }, { name: 'old' }, { name: 'new' }])
    expect(codes(body)).toEqual([undefined, undefined, 'UNKNOWN_TOOL', undefined])
    expect(body.results[3].value).toBe('new-ok')
  })
})

describe('what the log has of a call (core.md §23)', () => {
  it('events tell when they were stored, in epoch milliseconds [core-23.time]', async () => {
    const app = await startApp()
    const before = Date.now()
    await app.invoke({ name: 'echo' })
    const times = (await app.events()).map((event) => (event as unknown as { time: number }).time)
    expect(times).toHaveLength(3)
    for (const time of times) {
      expect(time).toBeGreaterThanOrEqual(before)
      expect(time).toBeLessThanOrEqual(Date.now())
    }
  })

  it('C114 a result cites its call; error stands there with a code only, metadata when there is some [core-23.tool-result] [core-22.3.commit]', async () => {
    const app = await startApp()
    app.app.tools.addHook('preExecute', (exec, next) => (exec.callId === 'denied' ? deny('no') : next()))
    await app.batch([
      { name: 'meta', callId: 'meta', arguments: { v: 'x' } },
      { name: 'need', callId: 'coded' },
      { name: 'echo', callId: 'denied' }
    ])
    const events = await app.events()
    const results = ofType(events, 'tool/result')
    const expected = (callId: string, content: string, isError: boolean, more: object) => ({
      turn: 1,
      step: 1,
      message: {
        id: expect.any(String),
        role: 'user',
        source: { kind: 'tool', callId },
        content: [{ type: 'tool-result', toolCallId: callId, content: [{ type: 'text', text: content }], isError }]
      },
      ...more
    })
    const invalid = results[1]?.data.message.content[0].content[0].text
    expect(results.map(({ data }) => data)).toEqual([
      expected('meta', 'x', false, { meta: { projected: 'x' } }),
      expected('coded', invalid, true, { error: { name: 'ToolArgsError', code: 'INVALID_ARGS' } }),
      expected('denied', 'Error: no', true, {})
    ])
    for (const result of results) {
      expect(result).toMatchObject({ surfaceOp: 'append' })
      const [seq] = result.sourceEventSeqs ?? []
      const call = events.find((event) => event.seq === seq)
      expect([call?.type, call?.data.callId]).toEqual(['tool/call', result.data.message.source.callId])
    }
  })

  it('value, message, contexts and conclusion are kept with the call, not in the event; the token nowhere [core-23.not-in-event] [core-23.replay]', async () => {
    const app = await startApp()
    app.app.tools.register(
      bareTool('whole', {
        execute: (_args, exec) => {
          exec.deferContext(contextFrom('later'))
          exec.concludeTurn()
          return 'the value'
        },
        output: { schema: {}, render: () => [{ type: 'text', text: 'shown' }] }
      })
    )
    const whole = await app.invoke({ name: 'whole', callId: 'w' })
    const [result] = ofType(await app.events(), 'tool/result')
    expect(Object.keys(result?.data).sort()).toEqual(['message', 'step', 'turn'])
    expect(JSON.stringify(result)).not.toMatch(/the value|later|conclude/)
    expect(whole).toMatchObject({ value: 'the value', concludesTurn: true, additionalContexts: [{ id: 'ctx-later' }] })
    expect(await app.invoke({ name: 'whole', callId: 'w' })).toEqual({ ...whole, replayed: true })

    const failed = await app.invoke({ name: 'boom', callId: 'f' })
    expect(failed.error?.message).toBe('exploded')
    expect(await app.invoke({ name: 'boom', callId: 'f' })).toEqual({ ...failed, replayed: true })
    const rows = await app.app.eventLog.rows('calls', { session: 'default' })
    expect(JSON.stringify([rows, await app.events(), whole, failed])).not.toMatch(/token/i)
  })
})

describe('contexts and turns (core.md §24)', () => {
  /** Each call adds a context of its own after its body. */
  async function adding(settings: Record<string, string> = {}): Promise<TestApp> {
    const app = await startApp(settings, { isDurable: true })
    app.app.tools.addHook('postExecute', async (exec, _result, next) => ({
      ...(await next()),
      additionalContexts: [contextFrom(exec.callId)]
    }))
    return app
  }

  it('C115 contexts begin the next step, in model order, as whole messages [core-24.1] [core-23.user-message]', async () => {
    const app = await adding()
    const batch = app.batch([gate('c1'), gate('c2')])
    await app.entered('c2')
    app.release('c2')
    await until(() => app.trace.includes('end:c2'))
    app.release('c1')
    await batch
    await app.batch([{ name: 'echo', callId: 'c3' }])
    expect((await app.log()).slice(4, 10)).toEqual([
      'tool/result c1',
      'tool/result c2',
      'step/end 1/1',
      'step/start 1/2',
      'user/message ctx-c1',
      'user/message ctx-c2'
    ])
    const [message] = ofType(await app.events(), 'user/message')
    expect(message).toMatchObject({ data: contextFrom('c1'), surfaceOp: 'append' })
    expect(message?.data).toEqual(contextFrom('c1'))
  })

  it('C115 a conclusion with a context queued gets one more step [core-24.2]', async () => {
    const app = await adding()
    app.boom = (exec) => (exec.concludeTurn(), 1)
    await app.batch([{ name: 'boom', callId: 'c1' }])
    expect((await app.log()).at(-1)).toBe('step/end 1/1')
    await app.batch([{ name: 'echo', callId: 'c2' }])
    expect((await app.log()).slice(-5)).toEqual([
      'step/start 1/2',
      'user/message ctx-c1',
      'tool/call c2',
      'tool/result c2',
      'step/end 1/2'
    ])
  })

  it('C113 aborting a turn drops what was queued, keeps what the drain brings, and has its first cause [core-24.3.clears] [core-24.3.drain] [core-24.3.order]', async () => {
    const app = await adding({ 'calls.maxParallelToolCalls': '1' })
    const batch = app.batch([gate('c1'), gate('c2')])
    await app.entered('c1')
    // Beside the batch: its context waits for a step that never comes.
    await app.invoke({ name: 'echo', callId: 'queued' })
    const end = (cause: string) => app.post('/sessions/default/turns/1/end', { reason: 'aborted', cause })
    const first = end('first')
    await until(() => app.app.callEngine.calls.find('default', 'c1')?.controller.signal.aborted === true)
    const second = end('second')
    app.release('c1')
    expect(codes((await batch).body)).toEqual(['ABORTED', 'ABORTED_BEFORE_DISPATCH'])
    expect([(await first).status, (await second).status]).toEqual([200, 200])
    await app.invoke({ name: 'echo', callId: 'next' })
    const log = await app.log()
    expect(log.slice(log.indexOf('tool/result c1'))).toEqual([
      'tool/result c1',
      'tool/call c2',
      'tool/result c2',
      'step/end 1/1',
      'turn/end 1 aborted',
      'turn/start 2',
      'user/message ctx-c1',
      'tool/call next',
      'tool/result next'
    ])
    const ends = ofType(await app.events(), 'turn/end')
    expect(ends.map(({ data }) => data.reason)).toEqual([{ kind: 'aborted', cause: 'first' }])
  })
})
