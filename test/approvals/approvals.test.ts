import { describe, expect, it } from 'vitest'
import { ApprovalFixture } from '../helpers/approval-fixture.ts'
import { FlakyLog } from '../helpers/flaky-log.ts'
import { deferred } from '../helpers/pipeline-fixture.ts'
import { until } from '../helpers/until.ts'

const code = (value: string) => expect.objectContaining({ code: value })

describe('asking (core.md §25)', () => {
  it('C053 without the service an ask is denied with its reason', async () => {
    const fixture = new ApprovalFixture()
    fixture.approvals = undefined
    fixture.decision = { kind: 'ask', reason: 'too risky' }
    expect((await fixture.invoke('c1')).error?.message).toBe('too risky')
    fixture.decision = { kind: 'ask' }
    expect((await fixture.invoke('c2')).error?.message).toContain('"body"')
    expect(await fixture.approvalEvents()).toEqual([])
  })

  it('C054 each outcome: allowed runs, the other three are denials with texts of their own [core-25.3.pair]', async () => {
    const fixture = new ApprovalFixture()
    const messages = new Set<string>()
    for (const outcome of ['allowed-once', 'rejected', 'cancelled', 'unavailable'] as const) {
      const undo = fixture.tools.addHook('approvalRequest', () => ({ outcome }))
      const answer = await fixture.invoke(outcome)
      undo()
      expect(answer.isError).toBe(outcome !== 'allowed-once')
      if (!answer.isError) continue
      expect(answer.error).toMatchObject({ effect: 'none' })
      expect(answer.error).not.toHaveProperty('info')
      messages.add(answer.error?.message ?? '')
    }
    expect(messages.size).toBe(3)
    const events = await fixture.approvalEvents()
    expect(events.map(({ type, data }) => data.outcome ?? type)).toEqual([
      'approval/asked',
      'allowed-once',
      'approval/asked',
      'rejected',
      'approval/asked',
      'cancelled',
      'approval/asked',
      'unavailable'
    ])
    expect(fixture.ran).toHaveLength(1)
    expect(fixture.announced).toEqual([])
  })

  it('C054 nobody is there to answer: unavailable [core-25.4.nobody]', async () => {
    const fixture = new ApprovalFixture(undefined, { announce: undefined as never })
    expect((await fixture.invoke('c1')).error?.message).toContain('nobody was there')
  })

  it('C054 a call without an agent is denied, nobody is asked and nothing logged', async () => {
    const fixture = new ApprovalFixture()
    const result = await fixture.engine.pipeline.execute({
      callId: 'c1',
      name: 'body',
      arguments: {},
      signal: new AbortController().signal
    })
    expect(result.isError && result.error.message).toContain('has no agent')
    expect([fixture.announced, fixture.log.appends]).toEqual([[], []])
  })

  it('C063 policy never: no answerer is asked, wherever it stands; the session’s own policy wins [core-25.4.never] [core-25.3.pair] [core-25.4.owner]', async () => {
    const fixture = new ApprovalFixture()
    const asked: string[] = []
    fixture.tools.addHook('approvalRequest', () => (asked.push('first'), { outcome: 'allowed-once' }))
    const session = await fixture.open()
    await fixture.invoke('c0')
    asked.length = 0
    await fixture.policy.set(session, 'never')
    fixture.tools.addHook('approvalRequest', () => (asked.push('before'), { outcome: 'allowed-once' }), {
      prepend: true
    })
    expect((await fixture.invoke('c1')).error?.message).toContain('refused')
    expect([asked, fixture.announced]).toEqual([[], []])
    const [first, second, ...more] = (await fixture.approvalEvents()).slice(3)
    expect([first?.type, second?.type, more]).toEqual(['approval/asked', 'approval/decided', []])
    expect(second?.data).toEqual({ id: first?.data.id, outcome: 'rejected' })
    await fixture.policy.set(session, 'ask')
    expect((await fixture.invoke('c2')).isError).toBe(false)
    expect(asked).toEqual(['before'])
  })

  it('C065 no open turn: the call fails at its pre-execute stage, with nothing logged [core-25.2]', async () => {
    const fixture = new ApprovalFixture()
    const session = await fixture.open()
    const after: string[] = []
    fixture.tools.addHook('postExecute', (_exec, _result, next) => (after.push('post'), next()))
    const result = await fixture.engine.pipeline.execute({
      callId: 'c1',
      name: 'body',
      arguments: {},
      agent: session,
      signal: new AbortController().signal
    })
    expect(result).toMatchObject({ isError: true, error: { message: 'an approval needs an open turn' } })
    expect([after, fixture.log.appends]).toEqual([[], []])
  })

  it.each<[string, () => never]>([
    [
      'throws',
      () => {
        throw new Error('no')
      }
    ],
    ['rejects', () => Promise.reject(new Error('no')) as never],
    ['answers another word', () => 'yolo' as never],
    ['answers another outcome', () => ({ outcome: 'yolo' }) as never],
    ['answers nothing', () => undefined as never],
    ['edits with what is no JSON', () => ({ outcome: 'allowed-once', arguments: { n: Number.NaN } }) as never]
  ])(
    'C065 an answerer that %s leaves nobody: a denial, through post-execute [core-25.4.invalid]',
    async (_what, answerer) => {
      const fixture = new ApprovalFixture()
      const after: string[] = []
      fixture.tools.addHook('postExecute', (_exec, _result, next) => (after.push('post'), next()))
      fixture.tools.addHook('approvalRequest', answerer)
      expect((await fixture.invoke('c1')).error?.message).toContain('nobody was there')
      expect([after, fixture.ran]).toEqual([['post'], []])
      expect((await fixture.approvalEvents())[1]?.data.outcome).toBe('unavailable')
    }
  )

  it('more than may be pending are refused before anything is logged', async () => {
    const fixture = new ApprovalFixture(undefined, { maxPending: 1 })
    const { answer, approval } = await fixture.waiting('c1')
    expect((await fixture.invoke('c2')).error).toMatchObject({ info: { code: 'OVERLOADED' }, retryable: true })
    await fixture.service.decide(approval.id, { decision: 'deny' }, 'ann')
    await answer
    expect(await fixture.approvalEvents()).toHaveLength(2)
  })

  it('an answerer edits the arguments, and the edit is logged and runs', async () => {
    const fixture = new ApprovalFixture()
    fixture.tools.addHook('approvalRequest', () => ({ outcome: 'allowed-once', arguments: { a: 2 } }))
    await fixture.invoke('c1')
    expect(fixture.ran).toEqual([{ a: 2 }])
    expect((await fixture.approvalEvents())[1]?.data.arguments).toEqual({ a: 2 })
  })

  it('aborted before it asks: cancelled, and nobody is asked [core-25.4.aborted]', async () => {
    const fixture = new ApprovalFixture()
    fixture.tools.addHook(
      'preExecute',
      async (_exec, next) => {
        fixture.calls.abort(new Error('stop'))
        return next()
      },
      { prepend: true }
    )
    expect((await fixture.invoke('c1')).error?.info?.code).toBe('ABORTED_BEFORE_DISPATCH')
    expect(fixture.announced).toEqual([])
    expect((await fixture.approvalEvents())[1]?.data).toMatchObject({ outcome: 'cancelled' })
  })

  it('an abort while it waits cancels at once, and the late answer is dropped [core-25.4.late]', async () => {
    const fixture = new ApprovalFixture()
    const late = deferred<{ outcome: 'allowed-once' }>()
    const asked = deferred()
    fixture.tools.addHook('approvalRequest', () => (asked.resolve(), late.promise))
    const call = fixture.invoke('c1')
    await asked.promise
    fixture.calls.abort(new Error('stop'))
    expect((await call).error?.info?.code).toBe('ABORTED_BEFORE_DISPATCH')
    late.resolve({ outcome: 'allowed-once' })
    await fixture.invoke('c2').catch(() => undefined)
    expect((await fixture.approvalEvents()).slice(0, 2).map(({ data }) => data.outcome)).toEqual([
      undefined,
      'cancelled'
    ])
    expect((await fixture.approvalEvents()).filter(({ type }) => type === 'approval/decided')).toHaveLength(2)
  })
})

describe('deciding (api.md §7)', () => {
  it('a person allows: stored with who and why, and the call runs once', async () => {
    const fixture = new ApprovalFixture()
    const { answer, approval } = await fixture.waiting('c1', { a: 1 })
    expect(await fixture.callState('c1')).toBe('awaiting-approval')
    const decided = await fixture.service.decide(approval.id, { decision: 'allow', reason: 'fine' }, 'ann')
    expect(decided.decision).toEqual({ outcome: 'allowed-once', at: fixture.clock.time, by: 'ann', reason: 'fine' })
    expect((await answer).value).toBe('ran')
    expect((await fixture.approvalEvents()).map(({ data }) => data)).toEqual([
      { id: approval.id, toolName: 'body', callId: 'c1' },
      { id: approval.id, outcome: 'allowed-once', by: 'ann' }
    ])
    expect(await fixture.service.get(approval.id)).toEqual(decided)
    expect(fixture.ran).toEqual([{ a: 1 }])
  })

  it('the decision is in the log, and the call no longer waiting there, before the body runs', async () => {
    const fixture = new ApprovalFixture()
    const seen: unknown[] = []
    fixture.body = async () => {
      seen.push(await fixture.callState('c1'), (await fixture.approvalEvents()).length)
      return null
    }
    const { answer, approval } = await fixture.waiting('c1')
    await fixture.service.decide(approval.id, { decision: 'allow' }, 'ann')
    await answer
    expect(seen).toEqual(['started', 2])
  })

  it('F65 many at once: one wins, the others learn who', async () => {
    const fixture = new ApprovalFixture()
    const { answer, approval } = await fixture.waiting('c1')
    const all = await Promise.allSettled(
      Array.from({ length: 10 }, (_, index) => fixture.service.decide(approval.id, { decision: 'allow' }, `p${index}`))
    )
    expect(all.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
    for (const result of all) {
      if (result.status === 'rejected')
        expect(result.reason).toMatchObject({ code: 'ALREADY_DECIDED', details: { outcome: 'allowed-once', by: 'p0' } })
    }
    await answer
    expect(fixture.ran).toHaveLength(1)
  })

  it('an answerer around the people has the last word, and the log says whose decision it was', async () => {
    const fixture = new ApprovalFixture()
    fixture.tools.addHook('approvalRequest', async (_ask, next) => {
      const { outcome } = await next()
      return { outcome: outcome === 'allowed-once' ? 'rejected' : outcome }
    })
    const { answer, approval } = await fixture.waiting('c1')
    await expect(fixture.service.decide(approval.id, { decision: 'allow' }, 'ann')).rejects.toMatchObject({
      code: 'ALREADY_DECIDED',
      details: { outcome: 'rejected' }
    })
    expect((await answer).error?.message).toContain('refused')
    expect((await fixture.approvalEvents())[1]?.data).toEqual({ id: approval.id, outcome: 'rejected' })
    expect(fixture.ran).toEqual([])
  })

  it('people may decide while an answerer still thinks', async () => {
    const fixture = new ApprovalFixture()
    const thinking = deferred()
    fixture.tools.addHook('approvalRequest', async (_ask, next) => (await thinking.promise, next()))
    const answer = fixture.invoke('c1')
    await until(() => fixture.service.list(() => true).length === 1)
    const [approval] = fixture.service.list(() => true)
    await fixture.service.decide(approval?.id ?? '', { decision: 'deny' }, 'ann')
    expect((await answer).error?.message).toContain('refused')
    thinking.resolve()
    await fixture.open()
    expect(fixture.announced).toEqual([])
  })

  it('what no longer is what was asked about is stale, and closed as rejected', async () => {
    const changes: ((fixture: ApprovalFixture) => void)[] = [
      (fixture) => (fixture.workdir = '/elsewhere'),
      (fixture) => (fixture.policyVersion = 'v2')
    ]
    for (const change of changes) {
      const fixture = new ApprovalFixture()
      const { answer, approval } = await fixture.waiting('c1')
      change(fixture)
      await expect(fixture.service.decide(approval.id, { decision: 'allow' }, 'ann')).rejects.toEqual(
        code('APPROVAL_STALE')
      )
      expect((await answer).error?.message).toContain('refused')
      expect((await fixture.approvalEvents())[1]?.data).toEqual({ id: approval.id, outcome: 'rejected', by: 'ann' })
      expect(fixture.ran).toEqual([])
    }
  })

  it('S25 the hash of another call is refused, and both go on waiting [core-25.6]', async () => {
    const fixture = new ApprovalFixture()
    const one = await fixture.waiting('c1')
    const two = await fixture.waiting('c2')
    expect(one.approval.hash).not.toBe(two.approval.hash)
    const { hash } = one.approval
    await expect(fixture.service.decide(two.approval.id, { decision: 'allow', hash }, 'ann')).rejects.toEqual(
      code('APPROVAL_STALE')
    )
    expect(fixture.service.list(() => true)).toHaveLength(2)
    await fixture.service.decide(one.approval.id, { decision: 'allow', hash }, 'ann')
    await one.answer
    // Again: it was for one call, once.
    await expect(fixture.service.decide(one.approval.id, { decision: 'allow' }, 'ann')).rejects.toEqual(
      code('ALREADY_DECIDED')
    )
    expect(await fixture.callState('c2')).toBe('awaiting-approval')
    await fixture.service.decide(two.approval.id, { decision: 'deny' }, 'ann')
    await two.answer
    expect(fixture.ran).toHaveLength(1)
  })

  it('edited arguments that are refused leave it pending', async () => {
    const fixture = new ApprovalFixture()
    fixture.tools.register({
      ...fixture.registry.lookup('body')!,
      name: 'strict',
      validateArguments: (args) => ((args as { a?: unknown }).a === undefined ? ['"a" is missing'] : [])
    })
    const session = await fixture.open()
    const answer = fixture.invocations.invoke({ session, callId: 'c1', name: 'strict', arguments: { a: 1 } })
    await until(() => fixture.announced.length === 1)
    const { id } = fixture.announced[0]!
    for (const edited of [{}, { a: -0 }, { a: Number.POSITIVE_INFINITY }]) {
      await expect(fixture.service.decide(id, { decision: 'allow', arguments: edited }, 'ann')).rejects.toEqual(
        code('INVALID_ARGS')
      )
    }
    expect(fixture.service.list(() => true)).toHaveLength(1)
    await fixture.service.decide(id, { decision: 'allow', arguments: { a: 2 } }, 'ann')
    await answer
    expect(fixture.ran).toEqual([{ a: 2 }])
  })

  it('an ask of a running body takes no edits, and its call does not wait in the log', async () => {
    const fixture = new ApprovalFixture()
    fixture.decision = { kind: 'allow' }
    const session = await fixture.open()
    fixture.body = async (exec) => {
      const { outcome } = await fixture.service.requestInBody({
        agent: session,
        toolName: exec.name,
        callId: exec.callId,
        reason: 'escalate',
        signal: exec.signal,
        exec
      })
      return outcome
    }
    const answer = fixture.invoke('c1')
    await until(() => fixture.announced.length === 1)
    const { id } = fixture.announced[0]!
    expect(await fixture.callState('c1')).toBe('started')
    expect(fixture.calls.find('s1', 'c1')?.state).toBe('awaiting-approval')
    await expect(fixture.service.decide(id, { decision: 'allow', arguments: {} }, 'ann')).rejects.toEqual(
      code('INVALID_ARGS')
    )
    // It has run, so it is no call for the next run of the server.
    fixture.calls.beginShutdown()
    expect(fixture.calls.find('s1', 'c1')?.isLeftPending).toBe(false)
    await fixture.service.decide(id, { decision: 'allow' }, 'ann')
    expect((await answer).value).toBe('allowed-once')
  })
})

describe('expiry (api.md §7)', () => {
  it('ends as unavailable after its time, from the asking on', async () => {
    const fixture = new ApprovalFixture()
    const { answer, approval } = await fixture.waiting('c1')
    expect(approval.expiresAt).toBe(approval.createdAt + 1_000)
    fixture.clock.pass(999)
    expect(fixture.service.list(() => true)).toHaveLength(1)
    fixture.clock.pass(1)
    expect((await answer).error?.message).toContain('nobody was there')
    expect((await fixture.approvalEvents())[1]?.data).toEqual({ id: approval.id, outcome: 'unavailable' })
  })

  it('one that is over and not closed yet cannot be decided any more', async () => {
    const fixture = new ApprovalFixture()
    const { answer, approval } = await fixture.waiting('c1')
    // The timer is late.
    fixture.clock.time += 1_000
    await expect(fixture.service.decide(approval.id, { decision: 'allow' }, 'ann')).rejects.toMatchObject({
      code: 'ALREADY_DECIDED',
      details: { outcome: 'unavailable' }
    })
    expect((await answer).isError).toBe(true)
    expect(fixture.ran).toEqual([])
  })

  it('0 is never, and longer than a timer can be is waited for in parts', async () => {
    const forever = new ApprovalFixture(undefined, { expiryMs: 0 })
    expect((await forever.waiting('c1')).approval).not.toHaveProperty('expiresAt')
    const long = new ApprovalFixture(undefined, { expiryMs: 2 ** 31 + 10 })
    const { answer } = await long.waiting('c1')
    long.clock.pass(2 ** 31 - 1)
    expect(long.service.list(() => true)).toHaveLength(1)
    long.clock.pass(11)
    expect((await answer).isError).toBe(true)
  })
})

describe('the end of the server', () => {
  it('what waits is left pending, cannot be decided here any more, and goes on in the next run', async () => {
    const log = new FlakyLog()
    const first = new ApprovalFixture(log)
    const { answer, approval } = await first.waiting('c1', { a: 1 })
    first.calls.beginShutdown()
    first.service.pending.beginShutdown()
    await expect(answer).rejects.toEqual(code('SHUTTING_DOWN'))
    await expect(first.service.decide(approval.id, { decision: 'allow' }, 'ann')).rejects.toEqual(code('SHUTTING_DOWN'))
    first.clock.pass(10_000)
    first.service.pending.dispose()
    expect([first.ran, await first.callState('c1'), (await first.row(approval.id))?.['state']]).toEqual([
      [],
      'awaiting-approval',
      'pending'
    ])

    const next = new ApprovalFixture(log)
    await next.service.pending.restore()
    expect(next.service.list(() => true)).toEqual([{ ...approval }])
    const session = await next.open()
    const live = next.calls.find('s1', 'c1')
    await next.service.decide(approval.id, { decision: 'allow' }, 'bob')
    expect((await live?.answer)?.value).toBe('ran')
    expect(next.ran).toEqual([{ a: 1 }])
    expect((await next.invocations.report(session, 'c1')).state).toBe('done')
    expect((await next.approvalEvents()).map(({ type }) => type)).toEqual(['approval/asked', 'approval/decided'])
  })

  it('a call that asks only during the drain is left as well', async () => {
    const fixture = new ApprovalFixture()
    const gate = deferred()
    fixture.tools.addHook('preExecute', async (_exec, next) => (await gate.promise, next()), { prepend: true })
    const answer = fixture.invoke('c1')
    await until(() => fixture.calls.find('s1', 'c1')?.state === 'running')
    fixture.calls.beginShutdown()
    fixture.service.pending.beginShutdown()
    gate.resolve()
    await expect(answer).rejects.toEqual(code('SHUTTING_DOWN'))
    await until(async () => (await fixture.callState('c1')) === 'awaiting-approval')
    expect((await fixture.approvalEvents()).map(({ type }) => type)).toEqual(['approval/asked'])
  })

  it('decided before its call asks again: the call finds the decision', async () => {
    const log = new FlakyLog()
    const first = new ApprovalFixture(log)
    const { approval } = await first.waiting('c1')
    const next = new ApprovalFixture(log)
    const gate = deferred()
    next.tools.addHook('preExecute', async (_exec, after) => (await gate.promise, after()), { prepend: true })
    await next.service.pending.restore()
    const live = next.calls.find('s1', 'c1')
    await next.service.decide(approval.id, { decision: 'allow' }, 'bob')
    gate.resolve()
    expect((await live?.answer)?.value).toBe('ran')
    expect((await next.approvalEvents()).map(({ type }) => type)).toEqual(['approval/asked', 'approval/decided'])
  })

  it('what has expired meanwhile is closed as unavailable, and its call with it', async () => {
    const log = new FlakyLog()
    const first = new ApprovalFixture(log)
    await first.waiting('expired')
    const expired = new ApprovalFixture(log)
    expired.clock.time += 5_000
    await expired.service.pending.restore()
    expired.clock.pass(0)
    await until(async () => (await expired.callState('expired')) === 'done')
    expect((await expired.approvalEvents()).at(-1)?.data.outcome).toBe('unavailable')
  })

  it('a policy that refuses the call by now closes its approval as cancelled', async () => {
    const log = new FlakyLog()
    const first = new ApprovalFixture(log)
    const { approval } = await first.waiting('c1')
    const next = new ApprovalFixture(log)
    next.decision = { kind: 'deny', reason: 'not any more' }
    await next.service.pending.restore()
    await until(async () => (await next.row(approval.id))?.['state'] === 'decided')
    expect((await next.row(approval.id))?.['outcome']).toBe('cancelled')
    const report = await next.invocations.report(await next.open(), 'c1')
    expect(report.result?.error?.message).toBe('not any more')
    expect(next.service.list(() => true)).toEqual([])
  })

  it('a policy that would allow the call by now does not: it was asked about', async () => {
    const log = new FlakyLog()
    const first = new ApprovalFixture(log)
    const { approval } = await first.waiting('c1')
    const next = new ApprovalFixture(log)
    next.decision = { kind: 'allow' }
    await next.service.pending.restore()
    await until(() => next.announced.length === 1)
    expect(next.ran).toEqual([])
    await next.service.decide(approval.id, { decision: 'deny' }, 'bob')
    await until(async () => (await next.callState('c1')) === 'done')
    expect(next.ran).toEqual([])
  })
})

describe('a store that fails', () => {
  it('an ask that is not stored is no grant: the call fails, and nobody was asked [core-25.3.append]', async () => {
    const fixture = new ApprovalFixture()
    fixture.log.refuses = ({ events = [] }) => events.some(({ type }) => type === 'approval/asked')
    await expect(fixture.invoke('c1')).rejects.toMatchObject({ name: 'StoreUnavailableError' })
    expect([fixture.announced, fixture.ran, fixture.service.list(() => true)]).toEqual([[], [], []])
    fixture.log.refuses = () => false
    await fixture.service.pending.reclaim()
    expect(fixture.service.pending.values()).toEqual([])
  })

  it('a decision that is not stored is none: all who decided are told, the call goes on waiting when the log is back', async () => {
    const fixture = new ApprovalFixture()
    const { answer, approval } = await fixture.waiting('c1', { a: 1 })
    fixture.log.refuses = ({ events = [] }) => events.some(({ type }) => type === 'approval/decided')
    const all = await Promise.allSettled(
      ['ann', 'bob'].map((by) => fixture.service.decide(approval.id, { decision: 'allow' }, by))
    )
    expect(all.map((result) => result.status === 'rejected' && result.reason.name)).toEqual([
      'StoreUnavailableError',
      'StoreUnavailableError'
    ])
    await expect(answer).rejects.toMatchObject({ name: 'StoreUnavailableError' })
    expect(fixture.ran).toEqual([])
    expect(await fixture.callState('c1')).toBe('awaiting-approval')

    fixture.log.refuses = () => false
    await fixture.service.pending.reclaim()
    expect(fixture.service.list(() => true)).toHaveLength(1)
    const live = fixture.calls.find('s1', 'c1')
    await fixture.service.decide(approval.id, { decision: 'allow' }, 'cleo')
    expect((await live?.answer)?.value).toBe('ran')
    expect(fixture.ran).toEqual([{ a: 1 }])
    expect((await fixture.approvalEvents()).map(({ data }) => data.by)).toEqual([undefined, 'cleo'])
  })

  it('deciding takes the call up again by itself when the log was back sooner', async () => {
    const fixture = new ApprovalFixture()
    const { answer, approval } = await fixture.waiting('c1')
    fixture.log.refuses = () => true
    await fixture.service.decide(approval.id, { decision: 'allow' }, 'ann').catch(() => undefined)
    await answer.catch(() => undefined)
    fixture.log.refuses = () => false
    await fixture.service.decide(approval.id, { decision: 'allow' }, 'bob')
    await until(async () => (await fixture.callState('c1')) === 'done')
    expect(fixture.ran).toHaveLength(1)
  })
})
