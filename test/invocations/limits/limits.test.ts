import { describe, expect, it } from 'vitest'
import { RequestError } from '../../../server/errors.ts'
import { Admission } from '../../../server/invocations/admission.ts'
import { explainLimits } from '../../../server/invocations/limits/explain.ts'
import { type LimitSettings, noLimits } from '../../../server/invocations/limits/limit-set.ts'
import type { Asker } from '../../../server/invocations/limits/meters.ts'
import { ScopeTree } from '../../../server/scopes/scope-tree.ts'

const calls = { maxConcurrent: 100, maxConcurrentPerScope: 50, maxQueued: 100, queueTimeoutMs: 60_000 }

/** global ─ team ─ a, b; and other. */
class Fixture {
  readonly tree = new ScopeTree()
  readonly team = this.tree.create('team')
  readonly a = this.tree.create('a', this.team)
  readonly b = this.tree.create('b', this.team)
  readonly other = this.tree.create('other')
  time = 1_000
  readonly refused: string[] = []
  readonly admission: Admission

  constructor(settings: Partial<LimitSettings> = {}) {
    this.admission = new Admission(calls, { ...noLimits, ...settings }, () => this.time)
    this.admission.onRefused((limit) => this.refused.push(limit))
  }

  /** `admitted`, `waits`, or the code with the details. */
  ask(asker: Asker): unknown {
    try {
      return this.admission.request(asker).isHeld ? 'admitted' : 'waits'
    } catch (error) {
      if (!(error instanceof RequestError)) throw error
      return [error.code, error.details]
    }
  }

  used(asker: Asker, limit: string): (number | undefined)[] {
    return explainLimits(this.admission, calls, asker, this.time)
      .filter((each) => each.limit === limit)
      .map(({ used }) => used)
  }
}

describe('rates', () => {
  const rate = { requests: 2, perMs: 1_000 }

  it('a rate lets its burst through, then one for each share of its time; the refusal says when', () => {
    const fixture = new Fixture({ scopes: { a: { rates: [rate] } } })
    const asker = { scope: fixture.a }
    expect([fixture.ask(asker), fixture.ask(asker)]).toEqual(['admitted', 'admitted'])
    const details = { limit: 'scope.rate', value: 2, perMs: 1_000, retryAfterMs: 500, scope: 'a' }
    expect(fixture.ask(asker)).toEqual(['RATE_LIMITED', details])
    fixture.time += 499
    expect(fixture.ask(asker)).toEqual(['RATE_LIMITED', { ...details, retryAfterMs: 1 }])
    fixture.time += 1
    expect([fixture.ask(asker), fixture.ask(asker)]).toEqual(['admitted', ['RATE_LIMITED', details]])
    fixture.time += 1_000_000
    expect([1, 2, 3].map(() => fixture.ask(asker))).toEqual(['admitted', 'admitted', ['RATE_LIMITED', details]])
    expect(fixture.refused).toEqual(Array(4).fill('scope.rate'))
  })

  it('Retry-After is in whole seconds, one at least', () => {
    const fixture = new Fixture({
      scopes: { a: { rates: [{ requests: 1, perMs: 90_500 }] }, b: { rates: [{ ...rate, burst: 1 }] } }
    })
    const header = (asker: Asker): string | undefined => {
      fixture.ask(asker)
      try {
        fixture.admission.request(asker)
      } catch (error) {
        return (error as RequestError).headers['retry-after']
      }
      return undefined
    }
    expect([header({ scope: fixture.a }), header({ scope: fixture.b })]).toEqual(['91', '1'])
  })

  it('a clock that stands, or a time that is far away, makes no room out of nothing', () => {
    const fixture = new Fixture({ scopes: { a: { rates: [{ requests: 3, perMs: 1_000, burst: 1 }] } } })
    let admitted = 0
    for (let tick = 0; tick < 3_000; tick++) {
      if (fixture.ask({ scope: fixture.a }) === 'admitted') admitted += 1
      for (const meter of fixture.admission.meters.ofScope(fixture.a)) meter.running = 0
      fixture.time += 1
    }
    expect(admitted).toBe(9)
  })

  it('an ancestor’s rate counts all below it, and one that is refused anywhere is counted nowhere', () => {
    const fixture = new Fixture({
      scopes: { team: { rates: [{ requests: 3, perMs: 60_000 }] }, b: { rates: [{ requests: 1, perMs: 60_000 }] } }
    })
    expect(fixture.ask({ scope: fixture.b })).toBe('admitted')
    for (let i = 0; i < 5; i++)
      expect(fixture.ask({ scope: fixture.b })).toMatchObject(['RATE_LIMITED', { scope: 'b' }])
    expect(fixture.used({ scope: fixture.team }, 'scope.rate')).toEqual([1])
    expect([fixture.ask({ scope: fixture.a }), fixture.ask({ scope: fixture.team })]).toEqual(['admitted', 'admitted'])
    expect(fixture.ask({ scope: fixture.a })).toMatchObject(['RATE_LIMITED', { scope: 'team' }])
    expect(fixture.ask({ scope: fixture.other })).toBe('admitted')
  })

  it('tools are counted by name, in their scope and over all; a batch names each once', () => {
    const fixture = new Fixture({
      tools: { bash: { rates: [{ requests: 2, perMs: 60_000 }] } },
      scopes: { a: { tools: { bash: { rates: [{ requests: 1, perMs: 60_000 }] } } } }
    })
    expect(fixture.ask({ scope: fixture.a, tools: ['bash', 'read'] })).toBe('admitted')
    expect(fixture.ask({ scope: fixture.a, tools: ['read', 'constructor', '__proto__'] })).toBe('admitted')
    expect(fixture.ask({ scope: fixture.a, tools: ['bash'] })).toMatchObject([
      'RATE_LIMITED',
      { limit: 'tool.rate', tool: 'bash', scope: 'a' }
    ])
    expect(fixture.ask({ scope: fixture.other, tools: ['bash'] })).toBe('admitted')
    expect(fixture.ask({ scope: fixture.other, tools: ['bash'] })).toMatchObject(['RATE_LIMITED', { scope: 'global' }])
  })

  it('each token has its own, and some have others; names of members of objects are tokens like any', () => {
    const one = { rates: [{ requests: 1, perMs: 60_000 }] }
    const fixture = new Fixture({ perToken: one, tokens: { big: { rates: [{ requests: 2, perMs: 60_000 }] } } })
    const ask = (token: string) => fixture.ask({ scope: fixture.a, token })
    expect(['x', 'constructor', 'big', 'big'].map(ask)).toEqual(Array(4).fill('admitted'))
    const details = { limit: 'token.rate', value: 1, perMs: 60_000, retryAfterMs: 60_000 }
    expect(ask('x')).toEqual(['RATE_LIMITED', details])
    expect(ask('constructor')).toEqual(['RATE_LIMITED', details])
    expect(fixture.ask({ scope: fixture.a })).toBe('admitted')
    fixture.time += 120_001
    for (const slot of [...fixture.admission.meters.tokens().values()]) slot.running = 0
    for (const [, meter] of fixture.admission.meters.tokens()) meter.isDirty = false
    fixture.admission.meters.forgetIdleTokens()
    expect(fixture.admission.meters.tokens().size).toBe(0)
  })
})

describe('concurrency and queues', () => {
  it('a scope’s concurrency counts those below it and stands for its own default; who waits keeps no other waiting', () => {
    const fixture = new Fixture({ scopes: { team: { concurrency: 2, queue: 1 } } })
    const held = fixture.admission.request({ scope: fixture.a })
    expect(fixture.ask({ scope: fixture.b })).toBe('admitted')
    const waiting = fixture.admission.request({ scope: fixture.team })
    expect(waiting.isHeld).toBe(false)
    expect(fixture.ask({ scope: fixture.a })).toEqual([
      'RATE_LIMITED',
      { limit: 'scope.queue', value: 1, scope: 'team' }
    ])
    expect(fixture.ask({ scope: fixture.other })).toBe('admitted')
    expect(fixture.used({ scope: fixture.team }, 'scope.queue')).toEqual([1])
    held.release()
    expect(waiting.isHeld).toBe(true)
    expect(fixture.used({ scope: fixture.team }, 'scope.queue')).toEqual([0])
  })

  it('nothing runs in a scope whose concurrency is 0, and raising it lets in who waits', () => {
    const fixture = new Fixture()
    fixture.admission.meters.set(fixture.team, { concurrency: 0 })
    const waiting = fixture.admission.request({ scope: fixture.a })
    expect(waiting.isHeld).toBe(false)
    fixture.admission.meters.set(fixture.team, {})
    fixture.admission.letIn()
    expect(waiting.isHeld).toBe(true)
    expect(fixture.admission.waiting).toBe(0)
  })

  it('tools and tokens have places too', () => {
    const fixture = new Fixture({
      tools: { bash: { concurrency: 1, queue: 0 } },
      perToken: { concurrency: 1, queue: 0 }
    })
    const first = fixture.admission.request({ scope: fixture.a, token: 't', tools: ['bash'] })
    expect(fixture.ask({ scope: fixture.b, tools: ['bash'] })).toMatchObject(['RATE_LIMITED', { limit: 'tool.queue' }])
    expect(fixture.ask({ scope: fixture.b, token: 't' })).toEqual(['RATE_LIMITED', { limit: 'token.queue', value: 0 }])
    first.release()
    expect(fixture.ask({ scope: fixture.b, token: 't', tools: ['bash'] })).toBe('admitted')
  })

  it('every place that is given back was counted everywhere', () => {
    const fixture = new Fixture({
      scopes: { team: { concurrency: 3, tools: { bash: { concurrency: 2 } } } },
      perToken: { concurrency: 2 }
    })
    const slots = Array.from({ length: 40 }, (_, index) =>
      fixture.admission.request({
        scope: [fixture.a, fixture.b][index % 2] as never,
        token: `t${index % 5}`,
        tools: ['bash']
      })
    )
    for (const slot of slots) slot.pause()()
    for (const slot of slots) slot.release()
    const meters = [fixture.tree.global, fixture.team, fixture.a, fixture.b].flatMap((scope) =>
      fixture.admission.meters.ofScope(scope)
    )
    for (const { running, waiting } of [...meters, ...fixture.admission.meters.tokens().values()]) {
      expect([running, waiting]).toEqual([0, 0])
    }
    expect([fixture.admission.running, fixture.admission.waiting]).toEqual([0, 0])
  })
})

describe('what is set at run time', () => {
  it('goes before the configuration member by member, and {} brings that back; what was used stays used', () => {
    const fixture = new Fixture({
      scopes: { a: { concurrency: 5, rates: [{ requests: 2, perMs: 60_000 }], tools: { bash: { queue: 1 } } } }
    })
    const { meters } = fixture.admission
    const shown = () =>
      explainLimits(fixture.admission, calls, { scope: fixture.a }, fixture.time)
        .filter(({ scope }) => scope === 'a')
        .map(({ limit, value, source, used }) => `${limit} ${value} ${source} ${used}`)
    fixture.ask({ scope: fixture.a })
    fixture.ask({ scope: fixture.a })
    expect(shown()).toEqual([
      'scope.concurrency 5 configuration 2',
      'scope.rate 2 configuration 2',
      'tool.queue 1 configuration 0'
    ])
    meters.set(fixture.a, { rates: [{ requests: 10, perMs: 60_000 }], tools: { read: { concurrency: 1 } } })
    expect(shown()).toEqual([
      'scope.concurrency 5 configuration 2',
      'scope.rate 10 request 2',
      'tool.queue 1 configuration 0',
      'tool.concurrency 1 request 0'
    ])
    meters.set(fixture.a, {})
    expect(shown()).toEqual([
      'scope.concurrency 5 configuration 2',
      'scope.rate 2 configuration 2',
      'tool.queue 1 configuration 0'
    ])
    expect(fixture.ask({ scope: fixture.a })).toMatchObject(['RATE_LIMITED', { limit: 'scope.rate' }])
  })

  it('a tool’s limit that is taken back lets in who waits for it; set again, it counts who still runs', () => {
    const fixture = new Fixture()
    const { admission } = fixture
    const tools = ['bash']
    admission.meters.set(fixture.team, { tools: { bash: { concurrency: 1 } } })
    const first = admission.request({ scope: fixture.a, tools })
    const second = admission.request({ scope: fixture.b, tools })
    expect([first.isHeld, second.isHeld]).toEqual([true, false])
    admission.meters.set(fixture.team, {})
    admission.letIn()
    expect(second.isHeld).toBe(true)
    expect(fixture.used({ scope: fixture.a }, 'tool.concurrency')).toEqual([])
    admission.meters.set(fixture.team, { tools: { bash: { concurrency: 2 } } })
    expect(fixture.used({ scope: fixture.a }, 'tool.concurrency')).toEqual([2])
    expect(fixture.ask({ scope: fixture.a, tools })).toBe('waits')
    first.release()
    second.release()
    expect(fixture.used({ scope: fixture.a }, 'tool.concurrency')).toEqual([1])
  })

  it('ends with its scope: another one of its id begins anew', () => {
    const fixture = new Fixture()
    fixture.admission.meters.set(fixture.a, { concurrency: 0, queue: 0 })
    expect(fixture.ask({ scope: fixture.a })).toMatchObject(['RATE_LIMITED', { limit: 'scope.queue' }])
    fixture.tree.remove(fixture.a)
    expect(fixture.ask({ scope: fixture.tree.create('a', fixture.team) })).toBe('admitted')
  })

  it('a token below does not learn whose limit is above it, nor how much others use of it', () => {
    const fixture = new Fixture({ scopes: { team: { concurrency: 1, queue: 0 }, a: { queue: 9 } } })
    fixture.ask({ scope: fixture.b })
    const asker = { scope: fixture.a, token: 't', reach: 'a' }
    expect(fixture.ask(asker)).toEqual(['RATE_LIMITED', { limit: 'scope.queue', value: 0 }])
    const shown = explainLimits(fixture.admission, calls, asker, fixture.time).filter(({ limit }) =>
      limit.startsWith('scope')
    )
    expect(shown).toEqual([
      { limit: 'scope.concurrency', value: 1, source: 'configuration' },
      { limit: 'scope.queue', value: 0, source: 'configuration' },
      { limit: 'scope.queue', value: 9, scope: 'a', source: 'configuration', used: 0 }
    ])
  })
})
