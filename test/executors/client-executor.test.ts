import fc from 'fast-check'
import { describe, expect, it, vi } from 'vitest'
import { ClientExecutor } from '../../server/executors/client-executor.ts'
import type { WireAnswer, WireCall } from '../../server/executors/executor.ts'
import { Provider, type ProviderLimits, type ProviderLink } from '../../server/executors/provider.ts'
import { readProviderAnswer } from '../../server/executors/provider-answer.ts'
import { Providers } from '../../server/executors/providers.ts'
import { ScopeTree } from '../../server/scopes/scope-tree.ts'

type Frame = Record<string, any>

/** A socket whose buffer the test fills and empties. */
class TestLink implements ProviderLink {
  readonly frames: Frame[] = []
  readonly #closing = new AbortController()
  #waiting: (() => void)[] = []
  isBackedUp = false

  get closed(): AbortSignal {
    return this.#closing.signal
  }

  whenWritable(): Promise<void> {
    return new Promise((resolve) => (this.isBackedUp ? this.#waiting.push(resolve) : resolve()))
  }

  sendText(text: string): void {
    if (!this.closed.aborted) this.frames.push(JSON.parse(text))
  }

  drain(): void {
    this.isBackedUp = false
    for (const resolve of this.#waiting.splice(0)) resolve()
  }

  close(): void {
    this.#closing.abort()
    this.drain()
  }

  /** The frames of a type, once what is under way in this turn has come. */
  async of(type: string): Promise<Frame[]> {
    await settled()
    return this.frames.filter((frame) => frame['type'] === type)
  }
}

const settled = () => new Promise((resolve) => setImmediate(resolve))

const limits: ProviderLimits = { graceMs: 60_000, maxPendingCalls: 1_000, maxFrameBytes: 10_000 }

const providerWith = (more: Partial<ProviderLimits> = {}) =>
  new Provider({ id: 'p', scope: 'global', owner: 't' }, { ...limits, ...more })

function callOf(more: Partial<WireCall> = {}): WireCall {
  return {
    callId: 'c',
    name: 'tool',
    arguments: {},
    scope: 'global',
    signal: new AbortController().signal,
    isIdempotent: false,
    progress: () => undefined,
    ...more
  }
}

/** How a call ended, in short. */
const outcome = (answer: Promise<WireAnswer>) =>
  answer.then(
    ({ value }) => ({ value }),
    (error: Error & { code?: string; effect?: string }) => `${error.name} ${error.code} ${error.effect ?? 'unknown'}`
  )

/** An abort signal that counts those who listen. */
function watchedSignal() {
  const controller = new AbortController()
  const { signal } = controller
  let listeners = 0
  const add = signal.addEventListener.bind(signal)
  const remove = signal.removeEventListener.bind(signal)
  vi.spyOn(signal, 'addEventListener').mockImplementation((...args: Parameters<typeof add>) => {
    listeners += 1
    add(...args)
  })
  vi.spyOn(signal, 'removeEventListener').mockImplementation((...args: Parameters<typeof remove>) => {
    listeners -= 1
    remove(...args)
  })
  return { controller, signal, count: () => listeners }
}

describe('a provider that is connected (api.md §5)', () => {
  it('gets the call with all that it needs, and its answer is the answer of the call', async () => {
    const [provider, link] = [providerWith(), new TestLink()]
    provider.attach(link)
    const executor = new ClientExecutor(provider)
    expect(executor.describe()).toEqual({ providerId: 'p', available: true })
    const chunks: string[] = []
    const answer = executor.run(
      callOf({ arguments: { a: 1 }, session: 's', deadlineAt: 9, progress: (chunk) => chunks.push(chunk) })
    )
    const [frame] = await link.of('call')
    expect(frame).toEqual({
      type: 'call',
      dispatchId: expect.any(String),
      providerId: 'p',
      callId: 'c',
      name: 'tool',
      arguments: { a: 1 },
      scope: 'global',
      session: 's',
      deadlineAt: 9
    })
    expect(provider.progress(link, frame?.['dispatchId'], 'half')).toBe(true)
    expect(provider.answer(link, frame?.['dispatchId'], { value: 7 })).toBe(true)
    expect(await answer).toEqual({ value: 7 })
    expect(chunks).toEqual(['half'])
  })

  it('answers each call once: a second answer, a late progress and one of nobody count for nothing', async () => {
    const [provider, link] = [providerWith(), new TestLink()]
    provider.attach(link)
    const answer = provider.run(callOf())
    const [id] = provider.pending as [string]
    expect(provider.answer(new TestLink(), id, { value: 'of a stranger' })).toBe(false)
    expect(provider.answer(link, 'nothing', { value: 0 })).toBe(false)
    expect(provider.answer(link, id, { value: 1 })).toBe(true)
    expect(provider.answer(link, id, { value: 2 })).toBe(false)
    expect(provider.progress(link, id, 'late')).toBe(false)
    expect(await answer).toEqual({ value: 1 })
  })

  it('answers 100 calls in reverse order, each with its own', async () => {
    const [provider, link] = [providerWith(), new TestLink()]
    provider.attach(link)
    const answers = Array.from({ length: 100 }, (_, n) => provider.run(callOf({ arguments: { n } })))
    for (const { dispatchId, arguments: args } of (await link.of('call')).toReversed()) {
      provider.answer(link, dispatchId, { value: args.n })
    }
    expect(await Promise.all(answers)).toEqual(Array.from({ length: 100 }, (_, value) => ({ value })))
    expect(provider.pending).toEqual([])
  })

  it('hears of an abort, and nobody listens to the signal of a call that is over', async () => {
    const [provider, link] = [providerWith(), new TestLink()]
    provider.attach(link)
    const { controller, signal, count } = watchedSignal()
    const [first, second] = [provider.run(callOf({ signal })), provider.run(callOf({ signal }))]
    const [one, two] = await link.of('call')
    provider.answer(link, one?.['dispatchId'], { value: 1 })
    expect(await outcome(first)).toEqual({ value: 1 })
    expect(count()).toBe(1)
    controller.abort()
    expect(await outcome(second)).toBe('AbortError ABORTED unknown')
    expect(await link.of('call/cancel')).toEqual([{ type: 'call/cancel', dispatchId: two?.['dispatchId'] }])
    expect(count()).toBe(0)
    expect(await outcome(provider.run(callOf({ signal })))).toBe('AbortError ABORTED none')
    expect([count(), await link.of('call')]).toEqual([0, [one, two]])
  })

  it('has a number of calls to answer at most, and no arguments that fit in no frame', async () => {
    const [provider, link] = [providerWith({ maxPendingCalls: 2 }), new TestLink()]
    provider.attach(link)
    const large = provider.run(callOf({ arguments: { text: 'ü'.repeat(5_000) } }))
    await expect(large).rejects.toThrow(/"arguments" do not fit in a frame of 10000 bytes/)
    expect(await outcome(large)).toBe('ToolArgsError INVALID_ARGS unknown')
    const answers = [provider.run(callOf()), provider.run(callOf())]
    expect(await outcome(provider.run(callOf()))).toBe('ProviderError OVERLOADED none')
    for (const id of provider.pending) provider.answer(link, id, { value: null })
    await Promise.all(answers)
    expect(provider.pending).toEqual([])
  })

  it('that reads slowly is given no more than it takes, and what it was not given has done nothing', async () => {
    const [provider, link] = [providerWith(), new TestLink()]
    provider.attach(link)
    link.isBackedUp = true
    const controller = new AbortController()
    const answers = [provider.run(callOf({ signal: controller.signal })), provider.run(callOf({ callId: 'second' }))]
    expect(await link.of('call')).toEqual([])
    controller.abort()
    expect(await outcome(answers[0]!)).toBe('AbortError ABORTED none')
    link.drain()
    expect((await link.of('call')).map(({ callId }) => callId)).toEqual(['second'])
    expect(await link.of('call/cancel')).toEqual([])
    provider.answer(link, provider.pending[0]!, { value: 1 })
    expect(await outcome(answers[1]!)).toEqual({ value: 1 })
  })
})

describe('a provider that lost its socket', () => {
  it('is unavailable for new calls at once, which then have done nothing', async () => {
    const provider = providerWith()
    expect(new ClientExecutor(provider).describe()).toEqual({ providerId: 'p', available: false })
    expect(await outcome(provider.run(callOf()))).toBe('ProviderError PROVIDER_UNAVAILABLE none')
  })

  it('gets the calls under way again when it is back, under their dispatchId, and is not asked for those that ended', async () => {
    const [provider, first, second] = [providerWith(), new TestLink(), new TestLink()]
    provider.attach(first)
    const controller = new AbortController()
    const answers = [
      provider.run(callOf({ callId: 'a' })),
      provider.run(callOf({ callId: 'b', signal: controller.signal })),
      provider.run(callOf({ callId: 'c' }))
    ]
    const [a, , c] = await first.of('call')
    provider.answer(first, c?.['dispatchId'], { value: 'c' })
    first.close()
    provider.detach(first, { mayReturn: true })
    controller.abort()
    expect(await outcome(answers[1]!)).toBe('AbortError ABORTED unknown')
    provider.attach(second)
    expect(await second.of('call')).toEqual([{ ...a, redelivered: true }])
    expect(provider.answer(first, a?.['dispatchId'], { value: 'too late' })).toBe(false)
    expect(provider.answer(second, a?.['dispatchId'], { value: 'a' })).toBe(true)
    expect(await Promise.all([answers[0], answers[2]].map((answer) => outcome(answer!)))).toEqual([
      { value: 'a' },
      { value: 'c' }
    ])
  })

  it('fails what is under way when the grace is over; only what it was given may have had an effect', async () => {
    const [provider, link] = [providerWith({ graceMs: 5 }), new TestLink()]
    provider.attach(link)
    const given = provider.run(callOf())
    await link.of('call')
    link.isBackedUp = true
    const waiting = provider.run(callOf())
    link.close()
    provider.detach(link, { mayReturn: true })
    expect(await outcome(given)).toBe('ProviderError PROVIDER_UNAVAILABLE unknown')
    expect(await outcome(waiting)).toBe('ProviderError PROVIDER_UNAVAILABLE none')
    const next = new TestLink()
    provider.attach(next)
    expect(await next.of('call')).toEqual([])
  })

  it('fails it at once when nobody may come back, and has no grace for what is not there', async () => {
    vi.useFakeTimers()
    try {
      const [provider, link] = [providerWith(), new TestLink()]
      provider.attach(link)
      provider.detach(link, { mayReturn: true })
      expect(vi.getTimerCount()).toBe(0)
      provider.attach(link)
      const call = provider.run(callOf())
      provider.detach(link, { mayReturn: false })
      expect(await outcome(call)).toBe('ProviderError PROVIDER_UNAVAILABLE unknown')
      expect(vi.getTimerCount()).toBe(0)
    } finally {
      vi.useRealTimers()
    }
  })

  it('at the very end of the grace either waits for no answer or gets the call again, and leaves no timer', async () => {
    vi.useFakeTimers()
    try {
      const [provider, first, second] = [providerWith({ graceMs: 100 }), new TestLink(), new TestLink()]
      provider.attach(first)
      const call = provider.run(callOf())
      provider.detach(first, { mayReturn: true })
      vi.advanceTimersByTime(99)
      provider.attach(second)
      vi.advanceTimersByTime(1_000)
      expect(provider.pending).toHaveLength(1)
      provider.detach(second, { mayReturn: true })
      vi.advanceTimersByTime(99)
      expect(provider.pending).toHaveLength(1)
      vi.advanceTimersByTime(1)
      expect(await outcome(call)).toBe('ProviderError PROVIDER_UNAVAILABLE unknown')
      expect(vi.getTimerCount()).toBe(0)
    } finally {
      vi.useRealTimers()
    }
  })

  it('whose calls have all ended in the meantime waits for nothing', async () => {
    vi.useFakeTimers()
    try {
      const [provider, link] = [providerWith(), new TestLink()]
      provider.attach(link)
      const controller = new AbortController()
      const call = provider.run(callOf({ signal: controller.signal }))
      provider.detach(link, { mayReturn: true })
      controller.abort()
      await outcome(call)
      expect(vi.getTimerCount()).toBe(0)
    } finally {
      vi.useRealTimers()
    }
  })
})

describe('two sockets of one provider', () => {
  it('the later wins: the earlier is told, its calls move, and its end changes nothing', async () => {
    const [provider, first, second] = [providerWith(), new TestLink(), new TestLink()]
    provider.attach(first)
    const call = provider.run(callOf())
    const [frame] = await first.of('call')
    provider.attach(second)
    expect(await first.of('provider/ended')).toEqual([
      { type: 'provider/ended', providerId: 'p', scope: 'global', reason: 'replaced' }
    ])
    expect(await second.of('call')).toEqual([{ ...frame, redelivered: true }])
    first.close()
    provider.detach(first, { mayReturn: true })
    expect(provider.isAvailable).toBe(true)
    provider.answer(second, frame?.['dispatchId'], { value: 1 })
    expect(await outcome(call)).toEqual({ value: 1 })
  })

  it('a call that the earlier was not given is no redelivery, and none is sent twice to one socket', async () => {
    const [provider, first, second] = [providerWith(), new TestLink(), new TestLink()]
    provider.attach(first)
    first.isBackedUp = true
    const call = provider.run(callOf())
    provider.attach(second)
    provider.attach(second)
    first.drain()
    expect(await first.of('call')).toEqual([])
    expect(await second.of('call')).toEqual([expect.not.objectContaining({ redelivered: true })])
    provider.answer(second, provider.pending[0]!, { value: 1 })
    await call
  })

  it('one that gives way and comes again is given each call once', async () => {
    const [provider, first, second] = [providerWith(), new TestLink(), new TestLink()]
    provider.attach(first)
    first.isBackedUp = true
    const call = provider.run(callOf())
    provider.attach(second)
    provider.attach(first)
    first.drain()
    expect(await first.of('call')).toEqual([expect.objectContaining({ redelivered: true })])
    provider.answer(first, provider.pending[0]!, { value: 1 })
    await call
  })

  it('one that is closed already takes nothing over', () => {
    const [provider, first, second] = [providerWith(), new TestLink(), new TestLink()]
    provider.attach(first)
    second.close()
    provider.attach(second)
    expect([provider.isAvailable, first.frames]).toEqual([true, []])
  })
})

describe('whatever happens in whatever order', () => {
  type Step = readonly [
    'call' | 'answer' | 'abort' | 'attach' | 'detach' | 'close' | 'fill' | 'drain' | 'fail' | 'turn',
    number
  ]
  const step = fc.tuple(
    // A closed socket takes nothing any more, so few close.
    fc.oneof(
      { weight: 9, arbitrary: fc.constantFrom<Step[0]>('call', 'answer', 'attach', 'detach', 'fill', 'drain', 'turn') },
      { weight: 1, arbitrary: fc.constantFrom<Step[0]>('abort', 'close', 'fail') }
    ),
    fc.nat(20)
  )

  it('each call ends once: with the answer of the socket of that moment, or with why there is none', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 10, maxLength: 60, size: 'max' }), async (steps: Step[]) => {
        const provider = providerWith({ maxPendingCalls: 5 })
        const links = [new TestLink(), new TestLink(), new TestLink()] as const
        const calls: { end: Promise<unknown>; controller: AbortController }[] = []
        const accepted = new Map<string, number>()
        for (const [what, n] of steps) {
          const link = links[n % 3]!
          if (what === 'call') {
            const controller = new AbortController()
            const end = outcome(provider.run(callOf({ callId: `${calls.length}`, signal: controller.signal })))
            calls.push({ end, controller })
          } else if (what === 'answer') {
            const sent = link.frames.filter(({ type }) => type === 'call')
            const frame = sent[n % Math.max(sent.length, 1)]
            if (frame === undefined) continue
            const isNow = provider.isOn(link) && provider.pending.includes(frame['dispatchId'])
            expect(provider.answer(link, frame['dispatchId'], { value: accepted.size })).toBe(isNow)
            if (!isNow) continue
            expect(accepted.has(frame['callId'])).toBe(false)
            accepted.set(frame['callId'], accepted.size)
          } else if (what === 'abort') calls[n % Math.max(calls.length, 1)]?.controller.abort()
          else if (what === 'attach') provider.attach(link)
          else if (what === 'detach') provider.detach(link, { mayReturn: n % 4 > 0 })
          else if (what === 'close') {
            link.close()
            provider.detach(link, { mayReturn: true })
          } else if (what === 'fill') link.isBackedUp = true
          else if (what === 'drain') link.drain()
          else if (what === 'fail') provider.fail()
          else await settled()
        }
        provider.fail()
        expect(provider.pending).toEqual([])
        const ends = await Promise.all(calls.map(({ end }) => end))
        ends.forEach((end, at) => {
          const value = accepted.get(`${at}`)
          if (value === undefined) expect(end).toMatch(/ABORTED|PROVIDER_UNAVAILABLE|OVERLOADED/)
          else expect(end).toEqual({ value })
        })
        // A cancel may go to a socket that waits for the call to come again: its provider runs it.
        const frames = links.flatMap((link) => link.frames)
        const sent = new Set(frames.filter(({ type }) => type === 'call').map(({ dispatchId }) => dispatchId))
        for (const { type, dispatchId } of frames) if (type === 'call/cancel') expect(sent).toContain(dispatchId)
        // Nobody was given a call for which it is said that nothing was done.
        const given = new Set(frames.map(({ callId }) => callId))
        ends.forEach((end, at) => {
          if (typeof end === 'string' && end.endsWith(' none')) expect(given.has(`${at}`)).toBe(false)
        })
      }),
      { numRuns: 300 }
    )
  })
})

describe('whose a provider is', () => {
  const fixture = () => {
    const tree = new ScopeTree()
    const live = new Set(['t1', 't2'])
    const tools = new Set<string>()
    const forget: (() => void)[] = []
    const providers = new Providers({
      limits: { ...limits, maxPerToken: 2 },
      isOwnerLive: (token) => live.has(token),
      hasTools: (scope, id) => tools.has(`${scope.id} ${id}`),
      onScope: (_scope, end) => forget.push(end)
    })
    return { tree, live, tools, forget, providers }
  }

  it("the token's that came first, in its scope alone, while some of it is left", () => {
    const { tree, tools, providers } = fixture()
    const [global, other] = [tree.global, tree.create('a')]
    const link = new TestLink()
    const first = providers.claim(global, 'p', 't1')
    expect(providers.claim(global, 'p', 't1')).toBe(first)
    first.attach(link)
    expect(() => providers.claim(global, 'p', 't2')).toThrow(expect.objectContaining({ code: 'PROVIDER_TAKEN' }))
    expect(providers.claim(other, 'p', 't2')).not.toBe(first)
    first.detach(link, { mayReturn: true })
    tools.add('global p')
    expect(() => providers.claim(global, 'p', 't2')).toThrow(expect.objectContaining({ code: 'PROVIDER_TAKEN' }))
    tools.clear()
    expect(providers.claim(global, 'p', 't2').owner).toBe('t2')
  })

  it('free once its token is no more; what was under way for that one goes to nobody else', async () => {
    const { tree, live, tools, providers } = fixture()
    const [link, next] = [new TestLink(), new TestLink()]
    const provider = providers.claim(tree.global, 'p', 't1')
    tools.add('global p')
    provider.attach(link)
    const call = provider.run(callOf())
    provider.detach(link, { mayReturn: true })
    live.delete('t1')
    const taken = providers.claim(tree.global, 'p', 't2')
    expect([taken, taken.owner]).toEqual([provider, 't2'])
    taken.attach(next)
    expect(await outcome(call)).toBe('ProviderError PROVIDER_UNAVAILABLE unknown')
    expect(await next.of('call')).toEqual([])
  })

  it('a token has a number of them; those of which nothing is left do not count', () => {
    const { tree, tools, providers } = fixture()
    for (const id of ['a', 'b']) {
      providers.claim(tree.global, id, 't1')
      tools.add(`global ${id}`)
    }
    expect(() => providers.claim(tree.global, 'c', 't1')).toThrow(
      expect.objectContaining({ code: 'RATE_LIMITED', details: { limit: 'providers.maxPerToken', value: 2 } })
    )
    providers.claim(tree.global, 'c', 't2')
    tools.delete('global a')
    expect(providers.claim(tree.global, 'c2', 't1').owner).toBe('t1')
  })

  it('ids that are names of properties are ids', () => {
    const { tree, providers } = fixture()
    expect(providers.claim(tree.global, '__proto__', 't1')).not.toBe(providers.claim(tree.global, 'constructor', 't1'))
  })

  it('ends with its scope and with the server: the socket is told, calls fail, and the id is free', async () => {
    const { tree, forget, providers } = fixture()
    const scope = tree.create('a')
    const link = new TestLink()
    const provider = providers.claim(scope, 'p', 't1')
    provider.attach(link)
    const call = provider.run(callOf())
    expect(forget).toHaveLength(1)
    forget[0]!()
    expect(await outcome(call)).toBe('ProviderError PROVIDER_UNAVAILABLE unknown')
    expect(await link.of('provider/ended')).toEqual([
      { type: 'provider/ended', providerId: 'p', scope: 'a', reason: 'disposed' }
    ])
    expect(providers.claim(scope, 'p', 't2')).not.toBe(provider)
    const other = providers.claim(tree.global, 'p', 't1')
    other.attach(link)
    const last = other.run(callOf())
    providers.close()
    expect(await outcome(last)).toBe('ProviderError PROVIDER_UNAVAILABLE unknown')
  })
})

describe('what a provider answers (core.md §2.8)', () => {
  const read = (text: string) => {
    const answer = readProviderAnswer(JSON.parse(text), text)
    return answer instanceof Error ? `${answer.name} ${(answer as { code?: string }).code}: ${answer.message}` : answer
  }

  it('is its value, with content if there is some', () => {
    expect(read('{"value":null}')).toEqual({ value: null })
    expect(read('{"content":[{"type":"text","text":"t"}],"value":{"a":[1]}}')).toEqual({
      value: { a: [1] },
      content: [{ type: 'text', text: 't' }]
    })
  })

  it('fails with its words and its code, save a code that is ours to give', () => {
    expect(read('{"error":{"message":"no such city","code":"NO_CITY"}}')).toBe('ToolFailedError NO_CITY: no such city')
    expect(read('{"error":{"message":"x","code":"PROVIDER_UNAVAILABLE"}}')).toBe('ToolFailedError TOOL_FAILED: x')
    expect(read('{"error":{"message":"x"}}')).toBe('ToolFailedError TOOL_FAILED: x')
    expect(read(`{"error":{"message":"${'x'.repeat(20_000)}"}}`)).toHaveLength(10_029)
  })

  it('is no output where a number would be rounded, wherever in it', () => {
    expect(read('{"value":{"id":9007199254740993}}')).toMatch(/INVALID_TOOL_OUTPUT: .*integer at value\.id is/)
    expect(read('{"value":1,"content":[{"type":"x","n":9007199254740993}]}')).toMatch(/integer at content\[0\]\.n is/)
    expect(read('{"value":9007199254740991}')).toEqual({ value: 9007199254740991 })
  })
})
