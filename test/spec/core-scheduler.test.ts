import { describe, expect, it } from 'vitest'
import { runBatch, type ScheduledCall } from '../../server/scheduler/scheduler.ts'
import { deferred, type Deferred } from '../helpers/pipeline-fixture.ts'

type Mode = 'parallel' | 'exclusive'

/** Waits that the test ends, by name, and what the lane did, in order. */
class Lane {
  readonly trace: string[] = []
  readonly controller = new AbortController()
  readonly #waits = new Map<string, Deferred>()

  /** Ends a wait, before or after it began. */
  release(...names: string[]): void {
    for (const name of names) this.#wait(name).resolve()
  }

  /** A call whose steps wait only where `held` says so: `policy`, `body` or `commit`; `denied`: its policy settles it. */
  call(id: string, held: readonly string[] = ['body'], mode: () => Mode = () => 'parallel'): ScheduledCall {
    const step = async (name: string): Promise<void> => {
      this.trace.push(`${name} ${id}`)
      if (held.includes(name)) await this.#wait(`${name} ${id}`).promise
    }
    const { signal } = this.controller
    return {
      get isAborted() {
        return signal.aborted
      },
      mode,
      start: async () => {
        await step('policy')
        return held.includes('denied') ? undefined : () => step('body')
      },
      commit: () => step('commit'),
      skip: () => step('skip')
    }
  }

  /** Lets everything that can go on go on. */
  async settle(): Promise<void> {
    for (let turn = 0; turn < 5; turn += 1) await new Promise((resolve) => setImmediate(resolve))
  }

  #wait(name: string): Deferred {
    const wait = this.#waits.get(name) ?? deferred()
    this.#waits.set(name, wait)
    return wait
  }
}

describe('the lane of a batch (core.md §22)', () => {
  it('while a policy is pending nothing else starts, and what has settled is not committed [core-22.4.pending-policy]', async () => {
    const lane = new Lane()
    const batch = runBatch([lane.call('a', []), lane.call('b', ['policy']), lane.call('c', [])], 10)
    await lane.settle()
    expect(lane.trace).toEqual(['policy a', 'body a', 'policy b'])
    lane.release('policy b')
    await batch
    expect(lane.trace.filter((step) => step.startsWith('commit'))).toEqual(['commit a', 'commit b', 'commit c'])
  })

  it('a slow post-execute delays the next start [core-22.4.slow-post]', async () => {
    const lane = new Lane()
    const batch = runBatch([lane.call('a', ['commit']), lane.call('b', []), lane.call('c', [])], 1)
    await lane.settle()
    expect(lane.trace).toEqual(['policy a', 'body a', 'commit a'])
    lane.release('commit a')
    await batch
    expect(lane.trace.slice(3)).toEqual(['policy b', 'body b', 'commit b', 'policy c', 'body c', 'commit c'])
  })

  it('so does that of a denied call, with room in the pool [core-22.4.slow-post]', async () => {
    const lane = new Lane()
    const batch = runBatch([lane.call('a', ['denied', 'commit']), lane.call('b', [])], 10)
    await lane.settle()
    expect(lane.trace).toEqual(['policy a', 'commit a'])
    lane.release('commit a')
    await batch
    expect(lane.trace.slice(2)).toEqual(['policy b', 'body b', 'commit b'])
  })

  it('a call is classified when its turn has come, not before [core-22.2.live]', async () => {
    const lane = new Lane()
    const asked: string[] = []
    const mode = (id: string) => () => (asked.push(`${id} after ${lane.trace.length}`), 'exclusive' as const)
    const batch = runBatch([lane.call('a', ['body'], mode('a')), lane.call('b', [], mode('b'))], 10)
    await lane.settle()
    expect(asked).toEqual(['a after 0'])
    lane.release('body a')
    await batch
    expect(asked).toEqual(['a after 0', 'b after 3'])
  })

  it('a call that has turned exclusive is asked again at each refill, and may turn back [core-22.4.reclassified]', async () => {
    const lane = new Lane()
    let mode: Mode = 'exclusive'
    const batch = runBatch([lane.call('a'), lane.call('b'), lane.call('c', [], () => mode)], 10)
    await lane.settle()
    expect(lane.trace).not.toContain('policy c')
    mode = 'parallel'
    lane.release('body b')
    await lane.settle()
    expect(lane.trace).toContain('body c')
    expect(lane.trace).not.toContain('commit a')
    lane.release('body a')
    await batch
  })

  it('an abort after the last start makes no pairs: all end as they do [core-22.6]', async () => {
    const lane = new Lane()
    const batch = runBatch([lane.call('a'), lane.call('b')], 10)
    await lane.settle()
    lane.controller.abort()
    lane.release('body b', 'body a')
    await batch
    expect(lane.trace.filter((step) => /^(commit|skip)/.test(step))).toEqual(['commit a', 'commit b'])
  })
})
