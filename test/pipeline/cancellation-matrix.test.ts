import { describe, expect, it } from 'vitest'
import { timeout } from '../../plugins/policies/timeout.ts'
import { ask, deny } from '../../server/pipeline/decisions.ts'
import type { ToolResult } from '../../server/pipeline/result.ts'
import {
  PipelineFixture,
  TestError,
  codeOf,
  contextFrom,
  contextsOf,
  deferred,
  isPending
} from '../helpers/pipeline-fixture.ts'

const ABD = 'ABORTED_BEFORE_DISPATCH'
const throwing = (error: unknown) => () => {
  throw error
}
const coded = () => new TestError('CODED', 'thrown')
const success = (more: object = {}): ToolResult => ({ isError: false, value: 1, content: [], ...more })

interface Row {
  name?: string
  args?: unknown
  mode?: 'code'
  isAbortedAtEntry?: true
  setUp?: (fixture: PipelineFixture, abort: () => void) => void
  code: string
  message?: string
  stages?: { post?: boolean; body?: boolean; guard?: boolean; 'around:before'?: boolean }
  contexts?: string[]
}

/** Every row of core.md §17 that one call can show; A is `abort`. Those that need time are below. */
const rows: Record<string, Row> = {
  'before entry, arguments not lossless [core-17.entry-lossy] [core-8.4.wins]': {
    isAbortedAtEntry: true,
    args: new Map(),
    code: 'none',
    stages: { post: false }
  },
  'before entry, arguments fine [core-17.entry]': {
    isAbortedAtEntry: true,
    code: ABD,
    stages: { post: false, guard: false, body: false }
  },
  'before entry, collapsed name [core-17.entry-collapsed] [core-8.5.aborted]': {
    isAbortedAtEntry: true,
    mode: 'code',
    code: ABD,
    stages: { post: false }
  },
  'C093a during pre, allow and guards abstain [core-17.pre-allow] [core-10.6]': {
    setUp: (f, abort) => f.hook('preExecute', (_e, next) => (abort(), next())),
    code: ABD,
    stages: { post: true, body: false, guard: true, 'around:before': false }
  },
  'during pre, a guard denies [core-17.pre-guard] [core-10.6]': {
    setUp: (f, abort) => {
      f.hook('preExecute', (_e, next) => (abort(), next()))
      f.guard(() => 'no')
    },
    code: 'none',
    message: 'no',
    stages: { post: true }
  },
  'C093b during pre, deny [core-17.pre-deny] [core-10.4.abort] [core-10.6]': {
    setUp: (f, abort) => f.hook('preExecute', () => (abort(), deny('no'))),
    code: 'none',
    message: 'no',
    stages: { post: true, body: false }
  },
  'C093c during pre, throw [core-17.pre-throw] [core-10.3.abort] [core-10.6]': {
    setUp: (f, abort) => f.hook('preExecute', () => (abort(), throwing(coded())())),
    code: 'CODED',
    message: 'thrown',
    stages: { post: false, body: false }
  },
  'during approval, cancelled [core-17.approval-cancelled] [core-10.5.cancelled]': {
    setUp: (f, abort) => {
      f.hook('preExecute', () => ask())
      f.approver = async () => (abort(), { outcome: 'cancelled' })
    },
    code: ABD,
    stages: { post: true, guard: false, body: false }
  },
  'during approval, allowed once raced in [core-17.approval-allowed]': {
    setUp: (f, abort) => {
      f.hook('preExecute', () => ask())
      f.approver = async () => (abort(), { outcome: 'allowed-once' })
    },
    code: ABD,
    stages: { post: true, guard: true, body: false, 'around:before': false }
  },
  'during approval, rejected [core-17.approval-refused]': {
    setUp: (f, abort) => {
      f.hook('preExecute', () => ask())
      f.approver = async () => (abort(), { outcome: 'rejected' })
    },
    code: 'none',
    stages: { post: true, guard: false }
  },
  'during approval, unavailable [core-17.approval-refused]': {
    setUp: (f, abort) => {
      f.hook('preExecute', () => ask())
      f.approver = async () => (abort(), { outcome: 'unavailable' })
    },
    code: 'none',
    stages: { post: true, guard: false }
  },
  'no abort, approval cancelled [core-17.no-abort-cancelled]': {
    setUp: (f) => {
      f.hook('preExecute', () => ask())
      f.approver = async () => ({ outcome: 'cancelled' })
    },
    code: 'none',
    stages: { post: true }
  },
  'C095a in a wrapper before next() [core-17.wrapper-next] [core-12.4.aborted]': {
    setUp: (f, abort) => f.hook('execute', (_e, next) => (abort(), next())),
    code: ABD,
    stages: { post: true, body: false }
  },
  'C095c in a wrapper that never calls next(), Success [core-17.wrapper-success] [core-12.12]': {
    setUp: (f, abort) => f.hook('execute', () => (abort(), success({ additionalContexts: [contextFrom('w')] }))),
    code: ABD,
    stages: { post: true, body: false },
    contexts: ['w']
  },
  'in a wrapper that never calls next(), Failure [core-17.wrapper-failure]': {
    setUp: (f, abort) => f.hook('execute', () => (abort(), { isError: true, error: { message: 'mine' }, content: [] })),
    code: 'none',
    message: 'mine',
    stages: { post: true }
  },
  'C095d in a wrapper that throws [core-17.wrapper-failure] [core-12.10]': {
    setUp: (f, abort) => f.hook('execute', () => (abort(), throwing(coded())())),
    code: 'CODED',
    stages: { post: false, body: false }
  },
  'C095b no abort, a wrapper supplies an aborted signal [core-17.wrapper-signal] [core-12.4.aborted]': {
    setUp: (f) => f.hook('execute', (exec, next) => ((exec.signal = AbortSignal.abort()), next())),
    code: ABD,
    stages: { post: true, body: false }
  },
  'no abort, a wrapper’s signal aborts while the body runs [core-17.wrapper-signal-body] [core-12.6.success]': {
    setUp: (f) => {
      const own = new AbortController()
      f.hook('execute', (exec, next) => ((exec.signal = own.signal), next()))
      f.boom = () => (own.abort(), 1)
    },
    code: 'ABORTED',
    stages: { post: true, body: true }
  },
  'while the body runs, it returns a value [core-17.body-value] [core-12.6.success]': {
    setUp: (f, abort) => {
      f.boom = (exec) => (exec.deferContext(contextFrom('n')), abort(), 1)
    },
    code: 'ABORTED',
    contexts: ['n'],
    stages: { post: true }
  },
  'while the body runs, it throws [core-17.body-throw] [core-12.6.failure]': {
    setUp: (f, abort) => {
      f.boom = () => (abort(), throwing(coded())())
    },
    code: 'CODED',
    stages: { post: true }
  },
  'while the body runs, it throws an AbortError [core-17.body-throw] [core-12.6.failure]': {
    setUp: (f, abort) => {
      f.boom = (exec) => {
        abort()
        exec.signal.throwIfAborted()
      }
    },
    code: 'none',
    stages: { post: true }
  },
  'while the body runs, its value is invalid [core-17.body-invalid]': {
    setUp: (f, abort) => {
      f.boom = () => abort()
    },
    code: 'INVALID_TOOL_OUTPUT'
  },
  'C098 after the body, the wrapper still pending [core-17.after-pending] [core-12.12]': {
    setUp: (f, abort) => {
      f.boom = (exec) => (exec.deferContext(contextFrom('n')), 1)
      f.hook('execute', async (_e, next) => {
        const result = await next()
        abort()
        return result
      })
    },
    code: 'ABORTED',
    contexts: ['n'],
    stages: { post: true }
  },
  'after the body, the wrapper throws [core-17.after-throw]': {
    setUp: (f, abort) => f.hook('execute', async (_e, next) => (await next(), abort(), throwing(coded())())),
    code: 'CODED',
    stages: { post: false }
  },
  'C098 during post-execute, accept [core-17.post-accept] [core-13.5]': {
    setUp: (f, abort) => {
      f.boom = (exec) => (exec.deferContext(contextFrom('n')), 1)
      f.hook('postExecute', () => (abort(), { kind: 'accept', additionalContexts: [contextFrom('p')] }))
    },
    code: 'ABORTED',
    contexts: ['n', 'p']
  },
  'during post-execute, accept after a short circuit [core-17.post-accept] [core-13.5]': {
    setUp: (f, abort) => {
      f.hook('execute', () => success())
      f.hook('postExecute', (_e, _r, next) => (abort(), next()))
    },
    code: ABD,
    stages: { body: false }
  },
  'C098 during post-execute, throw [core-17.post-other] [core-13.5]': {
    setUp: (f, abort) => f.hook('postExecute', () => (abort(), throwing(coded())())),
    code: 'CODED'
  },
  'C098 during post-execute, block [core-17.post-other] [core-13.5]': {
    setUp: (f, abort) =>
      f.hook('postExecute', () => (abort(), { kind: 'block', feedback: [{ type: 'text', text: 'b' }] })),
    code: 'none',
    message: 'b'
  },
  'during post-execute, a failure [core-13.5]': {
    setUp: (f, abort) => {
      f.boom = throwing(coded())
      f.hook('postExecute', (_e, _r, next) => (abort(), next()))
    },
    code: 'CODED'
  },
  'between the stages, with no hook to see it': {
    setUp: (f, abort) => {
      f.boom = () => 1
      const finalize = f.pipeline.finalize.bind(f.pipeline)
      f.pipeline.finalize = (call, result) => (abort(), finalize(call, result))
    },
    code: 'ABORTED',
    stages: { body: true }
  }
}

describe('the cancellation matrix (core.md §17)', () => {
  it.each(Object.entries(rows))('%s', async (_when, row) => {
    const fixture = new PipelineFixture(row.mode && { mode: row.mode })
    fixture.boom = () => 1
    const controller = new AbortController()
    const abort = () => controller.abort(new Error('the caller left'))
    row.setUp?.(fixture, abort)
    if (row.isAbortedAtEntry) abort()
    const { name = 'boom', args = {} } = row
    const input = fixture.input(name, args, { agent: fixture.agent('a'), signal: controller.signal })
    const { result } = await fixture.staged(input)

    expect(result.isError).toBe(true)
    expect(codeOf(result)).toBe(row.code)
    if (row.message !== undefined) expect(result).toMatchObject({ error: { message: row.message } })
    for (const [stage, ran] of Object.entries(row.stages ?? {}))
      expect([stage, fixture.stages.includes(stage)]).toEqual([stage, ran])
    expect(contextsOf(result)).toEqual(row.contexts)
  })

  it('an abort between the stages counts without any hook as well', async () => {
    const fixture = new PipelineFixture({ traced: false })
    const controller = new AbortController()
    const { call } = await fixture.pipeline.prepare(fixture.input('echo', {}, { signal: controller.signal }))
    const { result } = await fixture.pipeline.dispatch(call)
    controller.abort()
    expect(codeOf(await fixture.pipeline.finalize(call, result))).toBe('ABORTED')
  })

  it('C096 a cooperative body: ABORTED, and what it deferred is kept [core-17.body-value] [core-30.aborted]', async () => {
    const fixture = new PipelineFixture()
    const call = fixture.start('coop')
    await fixture.entered('coop')
    call.controller.abort()
    const result = await call.result
    expect(codeOf(result)).toBe('ABORTED')
    expect(contextsOf(result)).toEqual(['coop'])
  })

  it('C096 a body that ignores its signal: the call stays pending until it returns [core-17.body-ignores] [core-12.7.awaited]', async () => {
    const fixture = new PipelineFixture()
    const call = fixture.start('gate', { id: 'g' })
    await fixture.entered('g')
    call.controller.abort()
    expect(await isPending(call.result)).toBe(true)
    fixture.release('g')
    expect(codeOf(await call.result)).toBe('ABORTED')
  })

  it('a wrapper may put another result in the place of an inner ABORTED [core-17.wrapper-signal-body]', async () => {
    const fixture = new PipelineFixture()
    const own = new AbortController()
    fixture.boom = () => (own.abort(), 1)
    let inner: ToolResult | undefined
    fixture.hook('execute', async (exec, next) => {
      exec.signal = own.signal
      inner = await next()
      return success({ value: 'instead' })
    })
    expect(await fixture.call('boom')).toMatchObject({ value: 'instead' })
    expect(codeOf(inner!)).toBe('ABORTED')
  })

  it('the deadline first, the caller later: TOOL_TIMEOUT [core-17.deadline-first] [core-18.5.cooperative]', async () => {
    const { fixture, call, entered } = await timed(5)
    await entered
    await fixture.deadline.promise
    call.controller.abort()
    fixture.go.resolve()
    expect(codeOf(await call.result)).toBe('TOOL_TIMEOUT')
  })

  it('the caller first, the deadline later: ABORTED [core-17.caller-first]', async () => {
    const { fixture, call, entered } = await timed(60_000)
    await entered
    call.controller.abort()
    fixture.go.resolve()
    expect(codeOf(await call.result)).toBe('ABORTED')
  })

  it.each(['finalize', 'observer'])('during %s: no effect [core-17.finalize] [core-15.4]', async (stage) => {
    const fixture = new PipelineFixture()
    const controller = new AbortController()
    if (stage === 'finalize') fixture.finalizer = () => (controller.abort(), undefined)
    else fixture.hook('onResult', () => controller.abort())
    expect(await fixture.call('echo', {}, { signal: controller.signal })).toMatchObject({ isError: false })
    expect(controller.signal.aborted).toBe(true)
  })

  /** A call under a deadline whose body tells when its signal aborts, and returns when the test says so. */
  async function timed(timeoutMs: number) {
    const fixture = Object.assign(new PipelineFixture(), { deadline: deferred(), go: deferred() })
    await fixture.tools.mount(timeout)
    const entered = deferred()
    fixture.register({
      name: 'timed',
      description: '',
      parameters: { type: 'object' },
      output: { schema: {}, render: () => [] },
      timeoutMs,
      execute: async (_args, exec) => {
        exec.signal.addEventListener('abort', () => fixture.deadline.resolve(), { once: true })
        entered.resolve()
        await fixture.go.promise
        return 1
      }
    })
    return { fixture, call: fixture.start('timed'), entered: entered.promise }
  }
})
