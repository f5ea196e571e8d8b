import { describe, expect, it } from 'vitest'
import { Lifeline } from '../../../server/mcp/bridge/lifeline.ts'
import type { Link } from '../../../server/mcp/bridge/link.ts'
import { ResyncPace } from '../../../server/mcp/bridge/resync-pace.ts'
import { ScopeLinks } from '../../../server/mcp/bridge/scope-links.ts'
import { ScopeTree } from '../../../server/scopes/scope-tree.ts'
import { until } from '../../helpers/until.ts'

/** Time that passes when the test says so. */
class TestClock {
  time = 0
  readonly #timers = new Set<{ at: number; run: () => void }>()

  monotonic = (): number => this.time

  after = (delayMs: number, run: () => void): (() => void) => {
    const timer = { at: this.time + delayMs, run }
    this.#timers.add(timer)
    return () => void this.#timers.delete(timer)
  }

  /** When the next timer fires, from now. */
  get next(): number | undefined {
    const [first] = [...this.#timers].map(({ at }) => at).sort((a, b) => a - b)
    return first === undefined ? undefined : first - this.time
  }

  pass(ms: number): void {
    this.time += ms
    for (const timer of this.#timers) if (timer.at <= this.time && this.#timers.delete(timer)) timer.run()
  }
}

/** A link that closes when it is told to. */
function link({ isGone = true } = {}): Link & { drop: () => void } {
  let drop = (): void => {}
  const closed = new Promise<void>((resolve) => (drop = resolve))
  return { closed, drop, end: async () => (drop(), isGone) } as never
}

function lifeline({ policy = {}, links }: { policy?: object; links: (() => Promise<Link>)[] }) {
  const clock = new TestClock()
  const states: string[] = []
  let stopped = 0
  const line = new Lifeline({
    open: () => {
      const next = links.length > 1 ? links.shift() : links[0]
      return next!()
    },
    policy: { enabled: true, initialDelayMs: 500, maxDelayMs: 30_000, maxAttempts: 3, ...policy },
    clock,
    tell: (error) => (error as Error).message,
    onState: () => states.push(line.state),
    onStopped: () => (stopped += 1)
  })
  return { clock, line, states, stopped: () => stopped }
}

const fails = (): Promise<Link> => Promise.reject(new Error('refused'))
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

describe('reconnecting (backends.md §10)', () => {
  it('waits twice as long each time, up to the longest, and gives up when its attempts are spent', async () => {
    const { clock, line, stopped } = lifeline({ links: [fails], policy: { maxAttempts: 8, maxDelayMs: 4_000 } })
    await expect(line.start()).rejects.toThrow('refused')
    const delays: number[] = []
    while (line.state !== 'stopped') {
      delays.push(clock.next!)
      // While it waits, who calls is told so at once.
      await expect(line.ready()).rejects.toMatchObject({ code: 'MCP_UNAVAILABLE', effect: 'none' })
      clock.pass(clock.next!)
      await settled()
    }
    expect(delays).toEqual([500, 1_000, 2_000, 4_000, 4_000, 4_000, 4_000, 4_000])
    expect(stopped()).toBe(1)
    expect(line.lastError).toMatch(/given up after 8 attempts: refused/)
    await expect(line.ready()).rejects.toMatchObject({ code: 'MCP_UNAVAILABLE' })
  })

  it('only a connection that lasted makes the attempts whole again', async () => {
    const open: ReturnType<typeof link>[] = []
    const opens = async (): Promise<Link> => {
      const made = link()
      open.push(made)
      return made
    }
    const { clock, line } = lifeline({ links: [opens], policy: { maxAttempts: 3 } })
    await line.start()
    const lose = async (uptimeMs: number): Promise<void> => {
      clock.pass(uptimeMs)
      open.at(-1)!.drop()
      await settled()
    }
    const delays: (number | undefined)[] = []
    for (const uptimeMs of [1, 1, 30_000, 1, 1]) {
      await lose(uptimeMs)
      delays.push(clock.next)
      clock.pass(clock.next!)
      await until(() => line.state === 'ready')
    }
    expect(delays).toEqual([500, 1_000, 500, 1_000, 2_000])
    await lose(1)
    expect(line.state).toBe('stopped')
  })

  it('F55 who calls after a loss has it made anew at once, and all get the same', async () => {
    const [first, second] = [link(), link()]
    let opened = 0
    const { line, clock } = lifeline({ links: [async () => first, async () => ((opened += 1), second)] })
    await line.start()
    first.drop()
    await settled()
    expect(await Promise.all([line.ready(), line.ready(), line.ready()])).toEqual([second, second, second])
    expect([opened, clock.next]).toEqual([1, undefined])
  })

  it('is not made anew where it may not be, nor before the last one is gone', async () => {
    const off = lifeline({ links: [async () => link()], policy: { enabled: false } })
    const dropped = (await off.line.start()) as ReturnType<typeof link>
    dropped.drop()
    await settled()
    expect([off.line.state, off.clock.next, off.stopped()]).toEqual(['disconnected', undefined, 0])
    await expect(off.line.ready()).rejects.toMatchObject({ code: 'MCP_UNAVAILABLE' })

    const stuck = link({ isGone: false })
    const on = lifeline({ links: [async () => stuck] })
    await on.line.start()
    stuck.drop()
    await settled()
    expect([on.line.state, on.stopped()]).toEqual(['stopped', 1])
  })

  it('F53 a session that is over is renewed once for all', async () => {
    const [first, second] = [link(), link()]
    let opened = 0
    const { line } = lifeline({ links: [async () => first, async () => ((opened += 1), second)] })
    await line.start()
    expect(await Promise.all([line.renew(first), line.renew(first), line.renew(first)])).toEqual([
      second,
      second,
      second
    ])
    expect(opened).toBe(1)
  })

  it('a close ends what is under way, and what comes of it', async () => {
    let release = (_link: Link): void => {}
    const slow = link()
    const { line, clock, states } = lifeline({ links: [() => new Promise((resolve) => (release = resolve))] })
    const started = line.start()
    const closed = line.close()
    release(slow)
    await expect(started).rejects.toThrow('closed')
    await closed
    await slow.closed
    expect([line.state, clock.next, states.at(-1)]).toEqual(['closed', undefined, 'closed'])
  })
})

describe('a link for each scope', () => {
  it('is one for all who ask, made anew after its end, never more than there may be', async () => {
    const tree = new ScopeTree()
    const [a, b, c] = ['a', 'b', 'c'].map((id) => tree.create(id)) as [never, never, never]
    const made: ReturnType<typeof link>[] = []
    const links = new ScopeLinks({
      max: 2,
      open: async () => {
        const next = link()
        made.push(next)
        return next
      }
    })
    const [one, two] = await Promise.all([links.of(a), links.of(a), links.of(b)])
    expect([one === two, made.length]).toEqual([true, 2])
    await expect(links.of(c)).rejects.toMatchObject({ code: 'OVERLOADED', effect: 'none' })
    const renewed = await Promise.all([links.renew(a, one!), links.renew(a, one!), links.renew(a, one!)])
    expect([new Set(renewed).size, made.length, renewed[0] === one]).toEqual([1, 3, false])
    tree.remove(b)
    links.prune((scope) => tree.isLive(scope))
    await made[1]!.closed
    expect(await links.of(c)).toBe(made[3])
    made[3]!.drop()
    await settled()
    expect(await links.of(c)).toBe(made[4])
    await links.close()
    await made[4]!.closed
    await expect(links.of(a)).rejects.toMatchObject({ code: 'MCP_UNAVAILABLE' })
  })
})

describe('reading a list again', () => {
  it('happens once for all who asked meanwhile, and not more often than it may', async () => {
    const clock = new TestClock()
    const ends: (() => void)[] = []
    const pace = new ResyncPace(1_000, clock, () => new Promise((resolve) => ends.push(resolve)))
    for (let at = 0; at < 100; at += 1) pace.ask()
    expect(ends).toHaveLength(1)
    ends[0]!()
    await settled()
    expect([ends.length, clock.next]).toEqual([1, 1_000])
    clock.pass(1_000)
    expect(ends).toHaveLength(2)
    ends[1]!()
    await settled()
    expect(clock.next).toBeUndefined()
    pace.ask()
    pace.close()
    clock.pass(10_000)
    expect(ends).toHaveLength(2)
  })
})
