import { describe, expect, it } from 'vitest'
import { runChain } from '../../server/pipeline/chain.ts'
import { deferred, isPending } from '../helpers/pipeline-fixture.ts'

type Listener = (next: (...ignored: unknown[]) => Promise<string>) => string | Promise<string>

const chain = (listeners: Listener[], around = false, last: () => string | Promise<string> = () => 'last') =>
  runChain<Listener, string>({ listeners, invoke: (listener, next) => listener(next), last, around })

/** A listener that, once its own `next()` is done, calls that of another. */
const callsLate =
  (late: Promise<() => Promise<string>>): Listener =>
  async (next) => {
    const inner = await next()
    await (await late)().catch(() => {})
    return inner
  }

describe('a chain (core.md §9)', () => {
  it('is the default without listeners', async () => {
    expect(await chain([])).toBe('last')
  })

  it('runs the first listener outermost, and takes plain values [core-9.1.order] [core-9.2.next] [core-9.2.short] [core-9.3.plain]', async () => {
    const wrap =
      (word: string): Listener =>
      async (next) =>
        `${word}(${await next('ignored')})`
    expect(await chain([wrap('a'), wrap('b')])).toBe('a(b(last))')
    expect(await chain([wrap('a'), () => 'short', wrap('b')])).toBe('a(short)')
  })

  it.each<[string, Listener]>([
    [
      'a throw',
      () => {
        throw new Error('out')
      }
    ],
    ['a rejection', () => Promise.reject(new Error('out'))]
  ])('takes %s as a rejection that outer listeners see [core-9.3.throw]', async (_what, failing) => {
    await expect(chain([(next) => next(), failing])).rejects.toThrow('out')
    expect(await chain([(next) => next().catch((error: Error) => `caught ${error.message}`), failing])).toBe(
      'caught out'
    )
  })

  it('lets the around stage enter the whole inner chain again, in sequence [core-9.4.retry]', async () => {
    const entered: string[] = []
    let attempts = 0
    const outcome = await chain(
      [
        async (next) => {
          try {
            return await next()
          } catch {
            return next()
          }
        },
        (next) => {
          entered.push('inner')
          return next()
        }
      ],
      true,
      () => {
        attempts += 1
        if (attempts === 1) throw new Error('first')
        return `attempt ${attempts}`
      }
    )
    expect(outcome).toBe('attempt 2')
    expect(entered).toEqual(['inner', 'inner'])
  })

  it.each<[string, boolean, Listener]>([
    ['a second call elsewhere [core-9.4.second]', false, async (next) => (await next(), next())],
    ['a second call that is swallowed', false, async (next) => (await next(), await next().catch(() => ''), 'kept')],
    [
      'a concurrent second call [core-9.4.concurrent]',
      true,
      async (next) => (await Promise.all([next(), next()])).join()
    ],
    ['a concurrent call nobody awaits', true, (next) => (void next(), void next(), 'kept')]
  ])('fails for %s', async (_what, around, listener) => {
    await expect(chain([listener], around)).rejects.toThrow(/next\(\)/)
    await expect(chain([(next) => next().catch(() => 'hidden'), listener], around)).rejects.toThrow(/next\(\)/)
  })

  it('fails for a call after the listener has settled, while the stage still runs [core-9.4.late]', async () => {
    const late = deferred<() => Promise<string>>()
    const outcome = chain([callsLate(late.promise), (next) => (late.resolve(next), 'early')])
    await expect(outcome).rejects.toThrow(/settled/)
  })

  it('refuses a call after the stage is over, and harms nobody by it', async () => {
    let kept: (() => Promise<string>) | undefined
    expect(await chain([(next) => ((kept = next), 'done')])).toBe('done')
    await expect(kept?.()).rejects.toThrow(/settled/)
  })

  it('refuses the inner listener that an early outer one left behind', async () => {
    const go = deferred()
    let inner: Promise<string> | undefined
    const outcome = await chain([
      (next) => {
        void next()
        return 'early'
      },
      async (next) => {
        await go.promise
        inner = next()
        return inner
      }
    ])
    expect(outcome).toBe('early')
    go.resolve()
    await new Promise((resolve) => setImmediate(resolve))
    await expect(inner).rejects.toThrow(/settled/)
  })

  it.each([false, true])(
    'refuses a late call of a listener that handed on what next() gave it (around: %s)',
    async (around) => {
      const late = deferred<() => Promise<string>>()
      const outcome = chain([callsLate(late.promise), (next) => (late.resolve(next), next())], around)
      await expect(outcome).rejects.toThrow(/settled|twice/)
    }
  )

  it('gives a listener what the one within handed on, without a promise of its own', async () => {
    const given: Promise<string>[] = []
    const handOn: Listener = (next) => {
      const run = next()
      given.push(run)
      return run
    }
    expect(await chain([handOn, handOn, handOn])).toBe('last')
    expect(new Set(given).size).toBe(1)
  })

  it.each([false, true])(
    'lets a listener leave behind a run that fails: nobody has to hear of it (around: %s)',
    async (around) => {
      const failing: Listener = () => Promise.reject(new Error('unheard'))
      const outcome = chain([(next) => (void next(), 'kept'), (next) => next(), failing], around)
      expect(await outcome).toBe('kept')
      // An unhandled rejection would fail this file.
      await new Promise((resolve) => setImmediate(resolve))
    }
  )

  it('waits in the around stage for a run that its listener left behind, also a failing one', async () => {
    const body = deferred<string>()
    const outcome = chain([(next) => Promise.race([next(), Promise.resolve('winner')])], true, () => body.promise)
    expect(await isPending(outcome)).toBe(true)
    body.reject(new Error('late'))
    expect(await outcome).toBe('winner')
  })
})
