import { describe, expect, it } from 'vitest'
import { ask, block, deny } from '../../server/pipeline/decisions.ts'
import type { DispatchLogEntry } from '../../server/pipeline/hooks.ts'
import type { ToolDefinition } from '../../server/tools/definition.ts'
import { ToolArgsError } from '../../server/tools/args-error.ts'
import { ToolOutputError } from '../../server/tools/output-error.ts'
import { PipelineFixture, TestError, codeOf, deferred, isPending } from '../helpers/pipeline-fixture.ts'

const plain = (name: string, more: Partial<ToolDefinition> = {}): ToolDefinition => ({
  name,
  description: '',
  parameters: { type: 'object' },
  output: { schema: {}, render: () => [] },
  execute: () => 1,
  ...more
})

describe('the staged interface (core.md §22.10) [core-22.10]', () => {
  it('says after prepare what follows', async () => {
    const fixture = new PipelineFixture()
    const stageOf = async (name: string, args: unknown) =>
      (await fixture.pipeline.prepare(fixture.input(name, args))).stage
    expect(await stageOf('echo', {})).toBe('dispatch')
    expect(await stageOf('echo', new Map())).toBe('final-result')
    fixture.hook('preExecute', () => deny('no'))
    expect(await stageOf('echo', {})).toBe('post-result')
  })

  it('execute is exactly its composition', async () => {
    const results = []
    const traces = []
    for (const run of ['execute', 'staged'] as const) {
      const fixture = new PipelineFixture()
      fixture.hook('preExecute', (exec, next) => (exec.callId === 'c2' ? deny('no') : next()))
      fixture.hook('execute', (exec, next) => {
        if (exec.callId === 'c3') throw new Error('x')
        return next()
      })
      for (let call = 1; call <= 3; call += 1) {
        const input = fixture.input('echo', { text: 'x' })
        results.push(run === 'execute' ? await fixture.pipeline.execute(input) : (await fixture.staged(input)).result)
      }
      traces.push(fixture.trace)
    }
    expect(results.slice(0, 3)).toEqual(results.slice(3))
    expect(traces[0]).toEqual(traces[1])
  })
})

describe('the execution mode (core.md §21)', () => {
  it.each<[string, (() => unknown) | undefined, string]>([
    ['true [core-21.parallel]', () => true, 'parallel'],
    ['no classifier [core-21.exclusive]', undefined, 'exclusive'],
    ['false', () => false, 'exclusive'],
    ["'yes' [core-21.exclusive]", () => 'yes', 'exclusive'],
    ['1', () => 1, 'exclusive'],
    ['a promise [core-21.exclusive]', async () => true, 'exclusive'],
    ['a rejecting promise [core-21.exclusive]', () => Promise.reject(new Error('nobody awaits this')), 'exclusive'],
    [
      'a throw [core-21.total]',
      () => {
        throw new Error('x')
      },
      'exclusive'
    ]
  ])('C103 %s', (_what, isConcurrencySafe, kind) => {
    const fixture = new PipelineFixture()
    fixture.register(plain('t', isConcurrencySafe && { isConcurrencySafe: isConcurrencySafe as never }))
    expect(fixture.pipeline.executionMode(fixture.input('t'))).toEqual({ kind })
    expect(fixture.trace).toEqual([])
  })

  it('C103 depends on the arguments as they are, on the view, and on valid typed arguments [core-21.parallel] [core-21.exclusive] [core-21.total]', () => {
    const fixture = new PipelineFixture()
    const agent = fixture.agent('a')
    fixture.registry.restrict(agent.scope, { deny: ['gate'] })
    fixture.register(plain('rw', { isConcurrencySafe: (args) => (args as any).mode === 'read' }))
    const kind = (name: string, args?: unknown, more = {}) =>
      fixture.pipeline.executionMode(fixture.input(name, args, more)).kind
    expect(kind('rw', { mode: 'read' })).toBe('parallel')
    expect(kind('rw', { mode: 'write' })).toBe('exclusive')
    expect(kind('gate', { id: 'x' })).toBe('parallel')
    expect(kind('gate', { id: 1 })).toBe('exclusive')
    expect(kind('gate', { id: 'x' }, { agent })).toBe('exclusive')
    expect(kind('ghost')).toBe('exclusive')
    const hostile = Object.defineProperty(fixture.input('gate'), 'arguments', {
      get() {
        throw new Error('unreadable')
      }
    })
    expect(fixture.pipeline.executionMode(hostile).kind).toBe('exclusive')
  })

  it('C103 a collapsed call is exclusive, one from a running body is not collapsed [core-7.9.mode] [core-21.parallel]', () => {
    const fixture = new PipelineFixture({ mode: 'code' })
    const input = fixture.input('gate', { id: 'x' })
    expect(fixture.pipeline.executionMode(input).kind).toBe('exclusive')
    expect(fixture.pipeline.executionMode({ ...input, parent: Symbol('outer') }).kind).toBe('parallel')
  })
})

describe('effect and retryable (api.md §2)', () => {
  interface Row {
    name?: string
    args?: unknown
    setUp?: (fixture: PipelineFixture) => void
    signal?: AbortSignal
    idempotent?: boolean
  }
  const abortable = () => new AbortController()
  const rows: [string, Row, string, boolean][] = [
    ['a success', {}, 'completed', false],
    ['lossy arguments', { args: new Map() }, 'none', false],
    ['an unknown tool', { name: 'ghost' }, 'none', false],
    ['an abort before the start', { signal: AbortSignal.abort() }, 'none', true],
    ['a denial', { setUp: (f) => f.hook('preExecute', () => deny('no')) }, 'none', false],
    ['a guard', { setUp: (f) => f.guard(() => 'no') }, 'none', false],
    ['an ask nobody answers', { setUp: (f) => f.hook('preExecute', () => ask()) }, 'none', false],
    [
      'a pre throw',
      {
        setUp: (f) =>
          f.hook('preExecute', () => {
            throw new Error('down')
          })
      },
      'none',
      true
    ],
    [
      'a post throw on a denial',
      {
        setUp: (f) => {
          f.hook('preExecute', () => deny('no'))
          f.hook('postExecute', () => {
            throw new Error('x')
          })
        }
      },
      'none',
      false
    ],
    ['INVALID_ARGS', { name: 'need' }, 'none', false],
    [
      'INVALID_ARGS of an idempotent tool',
      {
        name: 'tool',
        idempotent: true,
        setUp: (f) => {
          f.boom = () => {
            throw new ToolArgsError(['"x"'])
          }
        }
      },
      'none',
      false
    ],
    [
      'INVALID_ARGS that a post hook blocked',
      { name: 'need', setUp: (f) => f.hook('postExecute', () => block([])) },
      'none',
      false
    ],
    [
      'a body throw',
      {
        name: 'tool',
        setUp: (f) => {
          f.boom = () => {
            throw new Error('x')
          }
        }
      },
      'unknown',
      false
    ],
    [
      'a body throw of an idempotent tool',
      {
        name: 'tool',
        idempotent: true,
        setUp: (f) => {
          f.boom = () => {
            throw new Error('x')
          }
        }
      },
      'unknown',
      true
    ],
    [
      'an executor that found nobody to run it',
      {
        name: 'tool',
        setUp: (f) => {
          f.boom = () => {
            throw Object.assign(new TestError('PROVIDER_UNAVAILABLE', 'x'), { effect: 'none' })
          }
        }
      },
      'none',
      true
    ],
    [
      'an executor that ran it and answered amiss',
      {
        name: 'tool',
        setUp: (f) => {
          f.boom = () => {
            throw new ToolOutputError('x')
          }
        }
      },
      'completed',
      false
    ],
    [
      'a plain error that claims no effect',
      {
        name: 'tool',
        setUp: (f) => {
          f.boom = () => {
            throw Object.assign(new Error('x'), { effect: 'none' })
          }
        }
      },
      'unknown',
      false
    ],
    [
      'invalid output',
      {
        name: 'tool',
        setUp: (f) => {
          f.boom = () => undefined
        }
      },
      'completed',
      false
    ],
    [
      'invalid output of an idempotent tool',
      {
        name: 'tool',
        idempotent: true,
        setUp: (f) => {
          f.boom = () => undefined
        }
      },
      'completed',
      true
    ],
    [
      'a wrapper that throws before the body',
      {
        setUp: (f) =>
          f.hook('execute', () => {
            throw new Error('x')
          })
      },
      'none',
      true
    ],
    [
      'a wrapper that fails without the body',
      { setUp: (f) => f.hook('execute', () => ({ isError: true, error: { message: 'busy' }, content: [] })) },
      'none',
      true
    ],
    [
      'a wrapper that throws after the body',
      {
        setUp: (f) =>
          f.hook('execute', async (_e, next) => {
            await next()
            throw new Error('x')
          })
      },
      'completed',
      false
    ],
    [
      'a retry that ended as INVALID_ARGS',
      {
        name: 'tool',
        setUp: (f) => {
          let attempts = 0
          f.boom = () => {
            throw (attempts += 1) === 1 ? new Error('x') : new ToolArgsError(['"x"'])
          }
          f.hook('execute', async (_e, next) => (await next(), next()))
        }
      },
      'unknown',
      false
    ],
    [
      'a retry after a success that ended as INVALID_ARGS',
      {
        name: 'tool',
        setUp: (f) => {
          let attempts = 0
          f.boom = () => {
            if ((attempts += 1) === 2) throw new ToolArgsError(['"x"'])
            return 1
          }
          f.hook('execute', async (_e, next) => (await next(), next()))
        }
      },
      'completed',
      false
    ],
    [
      'a retry that succeeded, failed by post-execute',
      {
        name: 'tool',
        idempotent: true,
        setUp: (f) => {
          let attempts = 0
          f.boom = () => {
            if ((attempts += 1) === 1) throw new ToolArgsError(['"x"'])
            return 1
          }
          f.hook('execute', async (_e, next) => (await next(), next()))
          f.hook('postExecute', () => {
            throw new Error('x')
          })
        }
      },
      'completed',
      true
    ],
    [
      'a wrapper’s success in place of an unknown tool’s failure, failed by post-execute',
      {
        name: 'tool',
        setUp: (f) => {
          f.hook('execute', async (_e, next) => (await next(), { isError: false, value: 1, content: [] }))
          f.boom = () => {
            throw new ToolArgsError(['"x"'])
          }
          f.hook('postExecute', () => {
            throw new Error('x')
          })
        }
      },
      'none',
      true
    ],
    ['a block', { setUp: (f) => f.hook('postExecute', () => block([])) }, 'completed', false],
    [
      'a block of an idempotent tool’s success',
      { name: 'tool', idempotent: true, setUp: (f) => f.hook('postExecute', () => block([])) },
      'completed',
      false
    ],
    [
      'a post throw',
      {
        setUp: (f) =>
          f.hook('postExecute', () => {
            throw new Error('x')
          })
      },
      'completed',
      false
    ],
    [
      'a lossy result',
      { setUp: (f) => f.hook('postExecute', () => ({ kind: 'accept', content: [1n as never] })) },
      'completed',
      false
    ],
    [
      'a finalizer throw',
      {
        setUp: (f) => {
          f.finalizer = () => {
            throw new Error('x')
          }
        }
      },
      'completed',
      false
    ]
  ]

  it.each(rows)('%s', async (_what, { name = 'echo', args = {}, setUp, signal, idempotent }, effect, retryable) => {
    const fixture = new PipelineFixture()
    fixture.boom = () => 1
    fixture.register(plain('tool', { execute: (_args, exec) => fixture.boom(exec), ...(idempotent && { idempotent }) }))
    setUp?.(fixture)
    const { call, result } = await fixture.staged(fixture.input(name, args, signal && { signal }))
    expect(fixture.pipeline.effectOf(call, result)).toBe(effect)
    expect(fixture.pipeline.isRetryable(call, result)).toBe(retryable)
  })

  it('ABORTED is unknown: a body that stopped half-way may still return', async () => {
    const fixture = new PipelineFixture()
    const controller = abortable()
    fixture.hook('postExecute', (_exec, _result, next) => (controller.abort(), next()))
    const { call, result } = await fixture.staged(fixture.input('echo', {}, { signal: controller.signal }))
    expect(codeOf(result)).toBe('ABORTED')
    expect(fixture.pipeline.effectOf(call, result)).toBe('unknown')
  })

  it('a retry that an abort stops is ABORTED, since the body was invoked', async () => {
    const fixture = new PipelineFixture()
    const controller = abortable()
    fixture.hook('execute', async (_exec, next) => {
      await next()
      controller.abort()
      return next()
    })
    const { call, result } = await fixture.staged(fixture.input('boom', {}, { signal: controller.signal }))
    expect(codeOf(result)).toBe('ABORTED')
    expect(fixture.pipeline.effectOf(call, result)).toBe('unknown')
  })
})

describe('a dry run (api.md §2)', () => {
  const validating = (validateArguments: () => string[] | Promise<string[]>) => {
    const fixture = new PipelineFixture()
    fixture.register(plain('tool', { validateArguments }))
    return fixture
  }

  it.each<[string, (fixture: PipelineFixture) => void, object]>([
    ['allow', () => {}, { decision: 'allow' }],
    ['deny', (f) => f.hook('preExecute', () => deny('no')), { decision: 'deny', reason: 'no' }],
    ['ask', (f) => f.hook('preExecute', () => ask()), { decision: 'ask' }],
    ['ask with a reason', (f) => f.hook('preExecute', () => ask('why')), { decision: 'ask', reason: 'why' }],
    ['a guard', (f) => f.guard(() => 'stop'), { decision: 'deny', reason: 'stop' }],
    [
      'a guard behind an ask',
      (f) => {
        f.hook('preExecute', () => ask('why'))
        f.guard(() => 'stop')
      },
      { decision: 'deny', reason: 'stop' }
    ],
    ['a guard without words', (f) => f.guard(() => ''), { decision: 'deny', reason: expect.stringContaining('echo') }],
    [
      'a hook that throws',
      (f) =>
        f.hook('preExecute', () => {
          throw new TestError('DOWN', 'down')
        }),
      { decision: 'deny', reason: 'down', error: { message: 'down', info: { name: 'TestError', code: 'DOWN' } } }
    ]
  ])('%s is reported, and nothing runs, is asked or told', async (_what, setUp, report) => {
    const fixture = new PipelineFixture()
    fixture.approver = async () => ({ outcome: 'allowed-once' })
    setUp(fixture)
    expect(await fixture.pipeline.dryRun(fixture.input('echo', {}, { agent: fixture.agent('a') }))).toStrictEqual(
      report
    )
    expect(fixture.stages.filter((stage) => stage !== 'pre' && stage !== 'guard')).toEqual([])
    expect(fixture.asks).toEqual([])
  })

  it('runs guards after an allow, not after a deny', async () => {
    const fixture = new PipelineFixture()
    await fixture.pipeline.dryRun(fixture.input('echo'))
    expect(fixture.stages).toEqual(['pre', 'guard'])
    fixture.hook('preExecute', () => deny('no'))
    await fixture.pipeline.dryRun(fixture.input('echo'))
    expect(fixture.stages).toEqual(['pre', 'guard', 'pre'])
  })

  it('reports what a tool that can tell says of the arguments, beside the decision', async () => {
    const report = (fixture: PipelineFixture, name = 'tool') => fixture.pipeline.dryRun(fixture.input(name))
    const typed = new PipelineFixture()
    expect(await report(typed, 'need')).toEqual({ decision: 'allow', violations: [expect.stringContaining('path')] })
    expect(await report(typed, 'raw')).toEqual({ decision: 'allow' })
    const late = validating(async () => ['late'])
    late.hook('preExecute', () => deny('no'))
    expect(await report(late)).toEqual({ decision: 'deny', reason: 'no', violations: ['late'] })
    expect(await report(validating(() => []))).toEqual({ decision: 'allow' })
    const broken = validating(() => {
      throw new Error('cannot')
    })
    expect(await report(broken)).toEqual({ decision: 'allow', error: { message: 'cannot' } })
  })

  it('reports what the call would fail with before and after policy', async () => {
    const fixture = new PipelineFixture()
    expect(await fixture.pipeline.dryRun(fixture.input('ghost'))).toMatchObject({
      decision: 'allow',
      error: { info: { code: 'UNKNOWN_TOOL' } }
    })
    const lossy = await fixture.pipeline.dryRun(fixture.input('echo', new Map()))
    expect(lossy).toMatchObject({ decision: 'deny', error: { message: expect.stringContaining('lossless') } })
    expect(lossy.reason).toBe(lossy.error?.message)
    const collapsed = new PipelineFixture({ mode: 'code' })
    expect(await collapsed.pipeline.dryRun(collapsed.input('echo'))).toMatchObject({
      decision: 'deny',
      error: { info: { code: 'UNKNOWN_TOOL' } }
    })
  })
})

describe('quiet (disposal waits for it)', () => {
  it('waits for the calls of the scope and below, not for others', async () => {
    const fixture = new PipelineFixture()
    const parent = fixture.agent('p')
    const child = fixture.agent('c', parent.scope)
    const sibling = fixture.agent('s')
    const call = fixture.start('gate', { id: 'g' }, { agent: child })
    const second = fixture.start('gate', { id: 'h' }, { agent: child })
    await fixture.entered('g')
    await fixture.entered('h')
    const quiet = [child, parent].map(({ scope }) => fixture.pipeline.quiet(scope))
    const all = fixture.pipeline.quiet(fixture.tree.global)
    await fixture.pipeline.quiet(sibling.scope)
    fixture.release('h')
    await second.result
    expect(await isPending(Promise.race([...quiet, all]))).toBe(true)
    const other = fixture.start('gate', { id: 'o' }, { agent: sibling })
    await fixture.entered('o')
    fixture.release('g')
    await call.result
    await Promise.all(quiet)
    expect(await isPending(all)).toBe(true)
    fixture.release('o')
    await other.result
    await all
  })

  it.each(['preExecute', 'postExecute'] as const)('waits for a slow %s hook, also stage by stage', async (stage) => {
    const fixture = new PipelineFixture()
    const entered = deferred()
    const go = deferred()
    fixture.hook(stage, async (...args: any[]) => {
      entered.resolve()
      await go.promise
      return args.at(-1)()
    })
    const staged = fixture.staged(fixture.input('echo'))
    await entered.promise
    const quiet = fixture.pipeline.quiet(fixture.tree.global)
    expect(await isPending(quiet)).toBe(true)
    go.resolve()
    await quiet
    await staged
  })
})

describe('the logged copy of a program’s call (code-mode.md §13.3)', () => {
  const entry = (more: Partial<DispatchLogEntry> = {}): DispatchLogEntry => ({
    rootCallId: 'c',
    parentCallId: 'c',
    subCallId: 'c:code:1',
    name: 'echo',
    arguments: {},
    isError: false,
    content: [{ type: 'text', text: 'original' }],
    ...more
  })

  it('is the content itself without hooks, and what they make of it with', async () => {
    const fixture = new PipelineFixture()
    const given = entry()
    expect(await fixture.pipeline.dispatchLogContent(given)).toBe(given.content)
    const agent = fixture.agent('a')
    const undo = fixture.hook('dispatchLog', async (_entry, next) => [
      ...(await next()),
      { type: 'text', text: 'more' }
    ])
    expect(await fixture.pipeline.dispatchLogContent(given)).toHaveLength(2)
    undo()
    fixture.hook('dispatchLog', () => [], { scope: agent.scope })
    expect(await fixture.pipeline.dispatchLogContent(given)).toHaveLength(1)
    expect(await fixture.pipeline.dispatchLogContent(entry({ agent }))).toEqual([])
  })

  it.each<[string, () => any]>([
    [
      'throws',
      () => {
        throw new Error('x')
      }
    ],
    ['answers something else', () => 'text']
  ])('stays the original when a hook %s', async (_what, hook) => {
    const fixture = new PipelineFixture()
    fixture.hook('dispatchLog', hook)
    const given = entry()
    expect(await fixture.pipeline.dispatchLogContent(given)).toBe(given.content)
    expect(fixture.warnings).toMatchObject([{ details: { tool: 'echo', callId: 'c:code:1' } }])
  })
})
