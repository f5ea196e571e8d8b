import { describe, expect, it } from 'vitest'
import { addHook, hooksOf, runChain } from '../../server/pipeline/hooks.ts'
import { ScopeTree } from '../../server/scopes/scope-tree.ts'
import { PipelineFixture, codeOf, deferred, isPending, messageIn } from '../helpers/pipeline-fixture.ts'

type Listener = (next: (...ignored: unknown[]) => Promise<string>) => string | Promise<string>

const chain = (listeners: Listener[], around = false, last: () => string | Promise<string> = () => 'last') =>
  runChain<Listener, string>({ listeners, invoke: (listener, next) => listener(next), last, around })

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
    const outcome = chain([
      async (next) => {
        const inner = await next()
        await (await late.promise)().catch(() => {})
        return inner
      },
      (next) => {
        late.resolve(next)
        return 'early'
      }
    ])
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

  it('waits in the around stage for a run that its listener left behind, also a failing one', async () => {
    const body = deferred<string>()
    const outcome = chain([(next) => Promise.race([next(), Promise.resolve('winner')])], true, () => body.promise)
    expect(await isPending(outcome)).toBe(true)
    body.reject(new Error('late'))
    expect(await outcome).toBe('winner')
  })
})

describe('hooks of scopes', () => {
  const noop = () => undefined

  it('are asked for without allocating when there are none', () => {
    const tree = new ScopeTree()
    const child = tree.create('child')
    expect(hooksOf('preExecute', child.chain)).toBe(hooksOf('execute', tree.global.chain))
  })

  it('come from the root down, by registration, `prepend` first within its scope [core-9.1.order] [core-9.1.prepend]', () => {
    const tree = new ScopeTree()
    const child = tree.create('child')
    const [a, b, c, d] = [() => 'a', () => 'b', () => 'c', () => 'd']
    addHook(child, 'onResult', c)
    addHook(tree.global, 'onResult', b)
    addHook(child, 'onResult', d, { prepend: true })
    const undo = addHook(tree.global, 'onResult', a, { prepend: true })
    expect(hooksOf('onResult', child.chain)).toEqual([a, b, d, c])
    expect(hooksOf('onResult', tree.global.chain)).toEqual([a, b])
    undo()
    undo()
    expect(hooksOf('onResult', child.chain)).toEqual([b, d, c])
  })

  it('refuse a stage that is not one, and a hook that is no function', () => {
    const { global } = new ScopeTree()
    expect(() => addHook(global, 'toString' as never, noop as never)).toThrow(TypeError)
    expect(() => addHook(global, 'onResult', undefined as never)).toThrow(TypeError)
  })

  it('are captured when the stage starts: one disposed meanwhile is gone for the next call [core-9.1.captured]', async () => {
    const fixture = new PipelineFixture({ traced: false })
    const seen: string[] = []
    fixture.hook('preExecute', (_exec, next) => {
      undo()
      return next()
    })
    const undo = fixture.hook('preExecute', (exec, next) => (seen.push(exec.callId), next()))
    await fixture.call('echo')
    await fixture.call('echo')
    expect(seen).toEqual(['c1'])
  })

  it('C049 reach the agents of their scope and below; unscoped ones see every call [core-7.14.hooks]', async () => {
    const fixture = new PipelineFixture()
    const parent = fixture.agent('p')
    const child = fixture.agent('c', parent.scope)
    const sibling = fixture.agent('s')
    fixture.hook('preExecute', () => ({ kind: 'deny', reason: 'not here' }), { scope: parent.scope })
    const codes = []
    for (const agent of [parent, child, sibling, undefined]) {
      codes.push(messageIn(await fixture.call('echo', {}, agent && { agent })))
    }
    expect(codes).toEqual(['not here', 'not here', undefined, undefined])
    expect(fixture.observed).toHaveLength(4)
  })

  it.each(['preExecute', 'postExecute'] as const)(
    'a second next() in %s fails the call there [core-9.4.second]',
    async (stage) => {
      const fixture = new PipelineFixture()
      fixture.hook(stage, async (...args: any[]) => {
        const next = args.at(-1)
        await next()
        return next()
      })
      const result = await fixture.call('echo')
      expect(codeOf(result)).toBe('none')
      expect(messageIn(result)).toContain('next()')
    }
  )
})
