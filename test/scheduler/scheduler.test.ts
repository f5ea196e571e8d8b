import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { runBatch, type ScheduledCall } from '../../server/scheduler/scheduler.ts'

/** `Promise.withResolvers`, which Node 20 lacks. */
function withResolvers(): { promise: Promise<void>; resolve: () => void } {
  let resolve = (): void => undefined
  const promise = new Promise<void>((done) => {
    resolve = done
  })
  return { promise, resolve }
}

interface Script {
  mode: () => 'parallel' | 'exclusive'
  isSettledEarly?: boolean
  isAborted?: () => boolean
  onBody?: () => void
  onCommit?: () => void
}

/** A call whose body ends when the test says so; `trace` records every step of the lane. */
class ScriptedCall implements ScheduledCall {
  readonly released = withResolvers()
  readonly #trace: string[]
  readonly #id: string
  readonly #script: Script

  constructor(trace: string[], id: string, script: Script) {
    this.#trace = trace
    this.#id = id
    this.#script = script
  }

  get isAborted(): boolean {
    return this.#script.isAborted?.() === true
  }

  mode(): 'parallel' | 'exclusive' {
    return this.#script.mode()
  }

  async start(): Promise<(() => Promise<void>) | undefined> {
    this.#trace.push(`call ${this.#id}`)
    await Promise.resolve()
    this.#trace.push(`policy ${this.#id}`)
    if (this.#script.isSettledEarly === true) return undefined
    return async () => {
      this.#trace.push(`body ${this.#id}`)
      this.#script.onBody?.()
      await this.released.promise
      this.#trace.push(`end ${this.#id}`)
    }
  }

  async commit(): Promise<void> {
    await Promise.resolve()
    this.#trace.push(`result ${this.#id}`)
    this.#script.onCommit?.()
  }

  async skip(): Promise<void> {
    this.#trace.push(`skip ${this.#id}`)
  }
}

const parallel = { mode: () => 'parallel' as const }
const refuse = (): never => {
  throw new Error('log refused')
}
const exclusive = { mode: () => 'exclusive' as const }
const settle = async (): Promise<void> => {
  for (let turn = 0; turn < 50; turn += 1) await Promise.resolve()
}

function batch(scripts: Record<string, Script>, maxParallel = 10, signal = new AbortController().signal) {
  const trace: string[] = []
  const calls = Object.entries(scripts).map(
    ([id, script]) => new ScriptedCall(trace, id, { isAborted: () => signal.aborted, ...script })
  )
  const byId = new Map(Object.keys(scripts).map((id, index) => [id, calls[index] as ScriptedCall]))
  return {
    trace,
    done: runBatch(calls, maxParallel),
    release: (id: string) => byId.get(id)?.released.resolve()
  }
}

describe('scheduler (core.md §22)', () => {
  it('C104 bodies overlap, results keep model order [core-22.3.lane] [core-22.3.commit] [core-22.4.head-of-line]', async () => {
    const { trace, done, release } = batch({ c1: parallel, c2: parallel, c3: parallel })
    await settle()
    expect(trace.filter((line) => line.startsWith('body'))).toEqual(['body c1', 'body c2', 'body c3'])
    release('c3')
    release('c2')
    await settle()
    expect(trace.some((line) => line.startsWith('result'))).toBe(false)
    release('c1')
    await done
    expect(trace.filter((line) => line.startsWith('result'))).toEqual(['result c1', 'result c2', 'result c3'])
    expect(trace.filter((line) => line.startsWith('policy'))).toEqual(['policy c1', 'policy c2', 'policy c3'])
  })

  it('C105 an exclusive call is a barrier through its commit [core-22.2.exclusive] [core-22.4.barrier]', async () => {
    const { trace, done, release } = batch({ r1: parallel, w: exclusive, r3: parallel })
    for (const id of ['r3', 'w', 'r1']) release(id)
    await done
    const at = (line: string): number => trace.indexOf(line)
    expect(at('result r1')).toBeLessThan(at('call w'))
    expect(at('result w')).toBeLessThan(at('call r3'))
  })

  it('C106 the pool rolls: a committed head makes room, and its result precedes the next call [core-22.3.cap] [core-22.3.lane]', async () => {
    const { trace, done, release } = batch({ c1: parallel, c2: parallel, c3: parallel, c4: parallel }, 2)
    await settle()
    expect(trace).toEqual(['call c1', 'policy c1', 'body c1', 'call c2', 'policy c2', 'body c2'])
    release('c1')
    await settle()
    expect(trace.slice(6)).toEqual(['end c1', 'result c1', 'call c3', 'policy c3', 'body c3'])
    for (const id of ['c2', 'c3', 'c4']) release(id)
    await done
  })

  it('a settled call that is not head of line frees its slot while its result is held back [core-22.4.refill]', async () => {
    const { trace, done, release } = batch({ c1: parallel, c2: parallel, c3: parallel }, 2)
    await settle()
    release('c2')
    await settle()
    expect(trace.at(-1)).toBe('body c3')
    expect(trace).not.toContain('result c2')
    release('c1')
    release('c3')
    await done
  })

  it('C109 a call settled by policy takes no slot [core-22.4.denied]', async () => {
    const { trace, done, release } = batch({ c1: parallel, c2: { ...parallel, isSettledEarly: true }, c3: parallel }, 2)
    await settle()
    expect(trace.filter((line) => line.startsWith('body'))).toEqual(['body c1', 'body c3'])
    release('c1')
    release('c3')
    await done
    expect(trace.filter((line) => line.startsWith('result'))).toEqual(['result c1', 'result c2', 'result c3'])
  })

  it('a call that a commit turned exclusive waits for the pool to drain [core-22.3.recheck] [core-22.4.reclassified]', async () => {
    let isExclusive = false
    const script = { mode: () => (isExclusive ? ('exclusive' as const) : ('parallel' as const)) }
    const { trace, done, release } = batch(
      { c1: { ...parallel, onCommit: () => (isExclusive = true) }, c2: parallel, c3: script, c4: parallel },
      2
    )
    await settle()
    release('c1')
    await settle()
    expect(trace).not.toContain('call c3')
    release('c2')
    await settle()
    expect(trace.at(-1)).toBe('body c3')
    release('c3')
    release('c4')
    await done
    expect(trace.indexOf('result c3')).toBeLessThan(trace.indexOf('call c4'))
  })

  it('C111 aborted before the start: every call is skipped [core-22.5.before]', async () => {
    const { trace, done } = batch({ c1: parallel, c2: exclusive }, 10, AbortSignal.abort())
    await done
    expect(trace).toEqual(['skip c1', 'skip c2'])
  })

  it('C113 an abort in mid-pool drains what runs and skips the rest, later groups too [core-22.5.drain] [core-22.5.groups]', async () => {
    const controller = new AbortController()
    const { trace, done, release } = batch(
      { c1: parallel, c2: parallel, c3: parallel, w: exclusive },
      2,
      controller.signal
    )
    await settle()
    controller.abort()
    release('c2')
    release('c1')
    await done
    expect(trace.filter((line) => /^(result|skip|call)/.test(line))).toEqual([
      'call c1',
      'call c2',
      'result c1',
      'result c2',
      'skip c3',
      'skip w'
    ])
  })

  it('a lone call has the same steps, in the same order, and none of them if it is aborted', async () => {
    const { trace, done, release } = batch({ only: exclusive })
    await settle()
    expect(trace).toEqual(['call only', 'policy only', 'body only'])
    release('only')
    await done
    expect(trace).toEqual(['call only', 'policy only', 'body only', 'end only', 'result only'])
    const early = batch({ only: { ...parallel, isSettledEarly: true } })
    await early.done
    expect(early.trace).toEqual(['call only', 'policy only', 'result only'])
    const aborted = batch({ only: { ...parallel, isAborted: () => true } })
    await aborted.done
    expect(aborted.trace).toEqual(['skip only'])
  })

  it('a call aborted alone is skipped in its place, and is no barrier', async () => {
    const isAborted = (): boolean => true
    const { trace, done, release } = batch({ c1: parallel, x: { ...exclusive, isAborted }, c3: parallel })
    await settle()
    expect(trace).toContain('body c3')
    release('c3')
    release('c1')
    await done
    expect(trace.filter((line) => /^(result|skip)/.test(line))).toEqual(['result c1', 'skip x', 'result c3'])
  })

  it('a body that fails ends the batch, once its siblings have settled [core-22.7]', async () => {
    const { trace, done, release } = batch({ c1: { ...parallel, onBody: refuse }, c2: parallel, c3: exclusive })
    const outcome = expect(done).rejects.toThrow('log refused')
    await settle()
    expect(trace).toContain('body c2')
    release('c2')
    await outcome
    expect(trace).not.toContain('call c3')
  })

  it('only the first of several failures is reported [core-22.7]', async () => {
    const second = (): never => {
      throw new Error('a later failure')
    }
    const { done } = batch({ c1: { ...parallel, onBody: refuse }, c2: { ...parallel, onBody: second } })
    await expect(done).rejects.toThrow('log refused')
  })

  it('an empty batch is done at once', async () => {
    await expect(runBatch([], 1)).resolves.toBeUndefined()
  })

  it('a failing machine starts nothing new, waits for the bodies in flight and rejects with the first error [core-22.7]', async () => {
    const { trace, done, release } = batch({
      c1: { ...parallel, onCommit: refuse },
      c2: parallel,
      c3: exclusive
    })
    await settle()
    release('c1')
    let isOver = false
    const outcome = expect(done.finally(() => (isOver = true))).rejects.toThrow('log refused')
    await settle()
    expect(isOver).toBe(false)
    release('c2')
    await outcome
    expect(trace).toContain('end c2')
    expect(trace).not.toContain('result c2')
    expect(trace).not.toContain('call c3')
  })

  it('model: whatever the modes, the releases and the cap, order and barriers hold [core-22.3.lane] [core-22.3.commit] [core-22.3.cap]', async () => {
    const callArbitrary = fc.record({
      isParallel: fc.boolean(),
      isSettledEarly: fc.boolean(),
      releaseRank: fc.nat(1000)
    })
    await fc.assert(
      fc.asyncProperty(
        fc.array(callArbitrary, { maxLength: 12 }),
        fc.integer({ min: 1, max: 5 }),
        fc.option(fc.nat(40)),
        async (plan, cap, abortAfter) => {
          const controller = new AbortController()
          const scripts = Object.fromEntries(
            plan.map((call, index) => [
              `c${index}`,
              { ...(call.isParallel ? parallel : exclusive), isSettledEarly: call.isSettledEarly }
            ])
          )
          const { trace, done, release } = batch(scripts, cap, controller.signal)
          const order = plan
            .map((call, index) => ({ id: `c${index}`, rank: call.releaseRank }))
            .sort((a, b) => a.rank - b.rank)
          let steps = 0
          for (const { id } of order) {
            if (abortAfter !== null && steps >= abortAfter) controller.abort()
            release(id)
            await Promise.resolve()
            steps += 1
          }
          await done
          checkOrder(trace, plan, cap)
        }
      ),
      { numRuns: 300 }
    )
  })
})

function checkOrder(
  trace: readonly string[],
  plan: readonly { isParallel: boolean; isSettledEarly: boolean }[],
  cap: number
): void {
  const idsOf = (verb: string): number[] =>
    trace.filter((line) => line.startsWith(`${verb} `)).map((line) => Number(line.slice(verb.length + 2)))
  const everyCall = plan.map((_, index) => index)
  expect([...idsOf('result'), ...idsOf('skip')]).toEqual(everyCall)
  expect([...idsOf('call'), ...idsOf('skip')]).toEqual(everyCall)
  expect(idsOf('policy')).toEqual(idsOf('call'))
  let open = 0
  const uncommitted = new Set<number>()
  for (const line of trace) {
    const [verb = '', id = ''] = line.split(' ')
    const index = Number(id.slice(1))
    if (verb === 'call') {
      const isBarrier = plan[index]?.isParallel !== true
      if (isBarrier) expect(uncommitted.size).toBe(0)
      for (const other of uncommitted) expect(plan[other]?.isParallel).toBe(true)
      uncommitted.add(index)
    }
    if (verb === 'result') uncommitted.delete(index)
    if (verb === 'body') expect((open += 1)).toBeLessThanOrEqual(cap)
    if (verb === 'end') open -= 1
  }
}
