import { describe, expect, it } from 'vitest'
import { allow, ask, deny } from '../../server/pipeline/decisions.ts'
import { PipelineFixture, TestError, codeOf, deferred, messageIn } from '../helpers/pipeline-fixture.ts'

describe('pre-execute (core.md §10)', () => {
  it('C050 one allowed call goes through the stages in their order [core-11.1.when]', async () => {
    const fixture = new PipelineFixture()
    await fixture.call('echo')
    expect(fixture.stages).toEqual([
      'pre',
      'guard',
      'around:before',
      'body',
      'around:after',
      'post',
      'finalize',
      'observer'
    ])
  })

  it('C051 deny: the reason as failure, frozen, through post-execute and past the body [core-10.4.shape] [core-30.uncoded]', async () => {
    const fixture = new PipelineFixture()
    fixture.hook('preExecute', () => deny('nope'))
    let seen: unknown
    fixture.hook('postExecute', (_exec, result, next) => ((seen = result), next()))
    const result = await fixture.call('echo')
    expect(result).toStrictEqual({
      isError: true,
      error: { message: 'nope' },
      content: [{ type: 'text', text: 'Error: nope' }]
    })
    expect(fixture.stages).toEqual(['pre', 'post', 'finalize', 'observer'])
    expect(seen).toEqual(result)
    expect([seen, (seen as any).error, (seen as any).content, (seen as any).content[0]].every(Object.isFrozen)).toBe(
      true
    )
  })

  it.each([
    ['a plain error', new Error('broken'), 'none'],
    ['a coded error', new TestError('POLICY_DOWN', 'broken'), 'POLICY_DOWN']
  ])(
    'C052 %s fails the call without post-execute, with the finalizer of the tool gone by then [core-10.3.throw]',
    async (_what, error, code) => {
      const fixture = new PipelineFixture()
      const undo = fixture.register({
        name: 'gone',
        description: 'Is unregistered by the hook.',
        parameters: { type: 'object' },
        output: { schema: {}, render: () => [] },
        finalizeContent: () => [{ type: 'text', text: 'last word' }],
        execute: () => null
      })
      fixture.hook('preExecute', () => {
        undo()
        throw error
      })
      const result = await fixture.call('gone')
      expect(result).toMatchObject({ error: { message: 'broken' }, content: [{ type: 'text', text: 'last word' }] })
      expect(codeOf(result)).toBe(code)
      expect(fixture.stages).toEqual(['pre', 'observer'])
    }
  )

  it.each<[string, unknown]>([
    ['undefined [core-9.5.pre-undefined]', undefined],
    ['null', null],
    ['a string', 'allow'],
    ['an unknown kind [core-9.5.pre-invalid]', { kind: 'maybe' }],
    ['an unknown kind with a reason [core-9.5.pre-invalid]', { kind: 'maybe', reason: 'x' }],
    ['deny without a reason [core-9.5.pre-invalid]', { kind: 'deny' }],
    ['deny with a reason that is no string', { kind: 'deny', reason: 1 }],
    ['ask with a reason that is no string', { kind: 'ask', reason: null }]
  ])('fails closed for %s (core.md §9.5)', async (_what, decision) => {
    const fixture = new PipelineFixture()
    fixture.hook('preExecute', () => decision as never, { prepend: true })
    const result = await fixture.call('echo')
    expect(codeOf(result)).toBe('none')
    expect(fixture.stages).toEqual(['finalize', 'observer'])
  })

  it('an empty reason is replaced [core-9.5.pre-empty-reason]', async () => {
    const fixture = new PipelineFixture()
    fixture.hook('preExecute', () => deny(''))
    expect(messageIn(await fixture.call('echo'))).toContain('echo')
  })

  it('C062 unknown names meet policy; a denial of one is a denial [core-10.1.names] [core-12.4.unknown]', async () => {
    const fixture = new PipelineFixture()
    expect(codeOf(await fixture.call('ghost'))).toBe('UNKNOWN_TOOL')
    expect(fixture.stages).toEqual(['pre', 'guard', 'around:before', 'around:after', 'post', 'observer'])
    fixture.hook('preExecute', () => deny('no ghosts'))
    expect(await fixture.call('ghost')).toMatchObject({ error: { message: 'no ghosts' } })
  })
})

describe('ask (core.md §10.5)', () => {
  const asking = (reason?: string) => {
    const fixture = new PipelineFixture()
    fixture.hook('preExecute', () => ask(reason))
    return { fixture, agent: fixture.agent('a') }
  }

  it('C053 without a channel is a denial, by the reason of the ask or naming the tool [core-10.5.no-service]', async () => {
    const { fixture, agent } = asking('because')
    expect(messageIn(await fixture.call('echo', {}, { agent }))).toBe('because')
    for (const reason of [undefined, '']) {
      const other = asking(reason)
      const result = await other.fixture.call('echo', {}, { agent: other.agent })
      expect(messageIn(result)).toContain('"echo"')
      expect(codeOf(result)).toBe('none')
      expect(other.fixture.stages).toEqual(['pre', 'post', 'finalize', 'observer'])
    }
  })

  it('C054 allowed once: the call runs, and the request had everything [core-10.5.allowed] [core-10.5.request] [core-25.6]', async () => {
    const { fixture, agent } = asking('risky')
    fixture.approver = async () => ({ outcome: 'allowed-once' })
    const input = fixture.input('echo', { text: 'hi' }, { agent })
    expect(await fixture.pipeline.execute(input)).toMatchObject({ value: 'hi' })
    const { exec, ...request } = fixture.asks[0]!
    expect(request).toEqual({ agent, toolName: 'echo', callId: 'c1', reason: 'risky', signal: input.signal })
    expect(request.signal).toBe(input.signal)
    expect(exec).toBe(fixture.observed[0]?.exec)
  })

  it('C054 an ask without a reason carries none, and every call asks anew [core-10.5.once] [core-10.5.request]', async () => {
    const { fixture, agent } = asking()
    fixture.approver = async () => ({ outcome: 'allowed-once' })
    await fixture.call('echo', {}, { agent })
    await fixture.call('echo', {}, { agent })
    expect(fixture.asks).toHaveLength(2)
    expect('reason' in fixture.asks[0]!).toBe(false)
  })

  it('C054 the three refusals and a call without agent are four different denials [core-10.5.refusals] [core-10.5.no-agent]', async () => {
    const { fixture, agent } = asking()
    const messages = new Set<string | undefined>()
    for (const outcome of ['rejected', 'cancelled', 'unavailable'] as const) {
      fixture.approver = async () => ({ outcome })
      const result = await fixture.call('echo', {}, { agent })
      expect(codeOf(result)).toBe('none')
      messages.add(messageIn(result))
    }
    fixture.asks.length = 0
    const agentless = await fixture.call('echo')
    messages.add(messageIn(agentless))
    expect(codeOf(agentless)).toBe('none')
    expect(fixture.asks).toEqual([])
    expect(messages.size).toBe(4)
    expect(fixture.stages.filter((stage) => stage === 'post')).toHaveLength(4)
    expect(fixture.stages).not.toContain('guard')
  })

  it('a guard may still deny after the yes [core-10.5.allowed]', async () => {
    const { fixture, agent } = asking()
    fixture.approver = async () => ({ outcome: 'allowed-once' })
    fixture.guard(() => 'no all the same')
    expect(messageIn(await fixture.call('echo', {}, { agent }))).toBe('no all the same')
  })

  it.each<[string, () => Promise<any>]>([
    ['a rejection', () => Promise.reject(new TestError('NO_TURN', 'no open turn'))],
    ['an unknown outcome', async () => ({ outcome: 'yolo' })],
    ['no outcome', async () => undefined]
  ])('C065 %s of the channel fails the call, past post-execute [core-10.5.rejects]', async (_what, approver) => {
    const { fixture, agent } = asking()
    fixture.approver = approver
    const result = await fixture.call('echo', {}, { agent })
    expect(result.isError).toBe(true)
    expect(fixture.stages).toEqual(['pre', 'finalize', 'observer'])
  })

  it('tells the caller that the call waits, and that it goes on, also after a rejection', async () => {
    const { fixture, agent } = asking()
    const states: string[] = []
    const answer = deferred<{ outcome: 'allowed-once' }>()
    const asked = deferred()
    fixture.approver = () => (asked.resolve(), answer.promise)
    const call = fixture.start('echo', {}, { agent, onState: (state) => states.push(state) })
    await asked.promise
    expect(states).toEqual(['awaiting-approval'])
    answer.resolve({ outcome: 'allowed-once' })
    await call.result
    expect(states).toEqual(['awaiting-approval', 'running'])
    fixture.approver = () => Promise.reject(new Error('down'))
    await fixture.call('echo', {}, { agent, onState: (state) => states.push(state) })
    expect(states).toEqual(['awaiting-approval', 'running', 'awaiting-approval', 'running'])
  })

  describe('with edited arguments (api.md §7)', () => {
    const editing = (args: unknown, again: (asks: number) => ReturnType<typeof allow>) => {
      const fixture = new PipelineFixture()
      const seen: unknown[] = []
      fixture.hook('preExecute', (exec) => {
        seen.push(exec.arguments)
        return seen.length === 1 ? ask() : again(seen.length)
      })
      fixture.guard((exec) => (seen.push(exec.arguments), undefined))
      fixture.approver = async () => ({ outcome: 'allowed-once', arguments: args as never })
      return { fixture, seen, call: () => fixture.call('echo', { text: 'old' }, { agent: fixture.agent('a') }) }
    }

    it.each([
      ['allow', allow],
      ['a second ask, which counts as answered', ask]
    ])('the hooks see them once more, and on %s they are what guards see and what runs', async (_what, again) => {
      const edit = { text: 'new' }
      const { fixture, seen, call } = editing(edit, () => again())
      expect(await call()).toMatchObject({ value: 'new' })
      expect(seen).toEqual([{ text: 'old' }, { text: 'new' }, { text: 'new' }])
      expect(fixture.asks).toHaveLength(1)
      expect(Object.isFrozen(edit)).toBe(false)
      expect(Object.isFrozen(seen[1])).toBe(true)
      expect(fixture.observed[0]?.exec.arguments).toEqual({ text: 'new' })
    })

    it('a denial of the edit stands', async () => {
      const { call } = editing({ text: 'new' }, () => deny('not that either'))
      expect(messageIn(await call())).toBe('not that either')
    })

    it('lossy ones fail closed', async () => {
      const { fixture, call } = editing(new Map(), allow)
      const result = await call()
      expect(messageIn(result)).toContain('lossless')
      expect(fixture.stages).not.toContain('body')
    })

    it('those that the tool refuses are INVALID_ARGS', async () => {
      const { call } = editing({ text: 1 }, allow)
      expect(codeOf(await call())).toBe('INVALID_ARGS')
    })
  })

  it('a call that waited for an approval over a restart is asked for again, though no hook asks now', async () => {
    const fixture = new PipelineFixture()
    fixture.approver = async () => ({ outcome: 'rejected' })
    const agent = fixture.agent('a')
    const result = await fixture.call('echo', {}, { agent, isAsked: true })
    expect(fixture.stages).not.toContain('body')
    expect(result.isError).toBe(true)
    expect(fixture.asks).toHaveLength(1)
    expect(fixture.asks[0]).not.toHaveProperty('reason')
  })

  it('a body that waits for a person says so for as long, and outside of it nobody is told', async () => {
    const fixture = new PipelineFixture()
    const told: string[] = []
    const onPersonAwaited = () => (told.push('waits'), async () => void told.push('goes on'))
    let kept: Parameters<PipelineFixture['boom']>[0] | undefined
    fixture.boom = async (exec) => {
      kept = exec
      await exec.awaitPerson(Promise.reject(new Error('gone')))
    }
    expect(messageIn(await fixture.call('boom', {}, { onPersonAwaited }))).toContain('gone')
    expect(told).toEqual(['waits', 'goes on'])
    expect(await kept?.awaitPerson(Promise.resolve('late'))).toBe('late')
    expect(told).toHaveLength(2)
  })
})
