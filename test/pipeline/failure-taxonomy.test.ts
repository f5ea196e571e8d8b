import { describe, expect, it } from 'vitest'
import { ask, deny } from '../../server/pipeline/decisions.ts'
import { timeout } from '../../plugins/policies/timeout.ts'
import { PipelineFixture, TestError, codeOf, contextFrom, contextsOf } from '../helpers/pipeline-fixture.ts'

interface Row {
  name?: string
  args?: unknown
  mode?: 'code'
  /** What is special about the call; `abort` aborts the caller's signal. */
  setUp?: (fixture: PipelineFixture, abort: () => void) => unknown
  isAbortedAtEntry?: true
  code: string
  errorName?: string
  post: boolean
  /** Contexts left on the result; the body of `boom` defers `body`. */
  contexts?: string[]
  body: boolean
  /** A failure whose content is not `Error: <message>`. */
  authored?: true
}

const coded = (code = 'CODED') => new TestError(code, 'thrown')
const throwing = (error: unknown) => () => {
  throw error
}
const defer =
  (then: () => unknown): PipelineFixture['boom'] =>
  (exec) => {
    exec.deferContext(contextFrom('body'))
    return then()
  }

/** Every row of core.md §16, some of them in several ways. */
const rows: Record<string, Row> = {
  'arguments not lossless [core-16.arguments]': { args: new Map(), code: 'none', post: false, body: false },
  'code-mode collapse [core-16.collapse] [core-30.tool-not-found]': {
    mode: 'code',
    code: 'UNKNOWN_TOOL',
    errorName: 'ToolNotFoundError',
    post: false,
    body: false
  },
  'aborted at entry [core-16.entry]': {
    isAbortedAtEntry: true,
    code: 'ABORTED_BEFORE_DISPATCH',
    errorName: 'AbortError',
    post: false,
    body: false
  },
  'pre throw [core-16.infrastructure]': {
    setUp: (f) => f.hook('preExecute', throwing(coded())),
    code: 'CODED',
    post: false,
    body: false
  },
  'guard throw [core-16.infrastructure]': {
    setUp: (f) => f.guard(throwing(coded())),
    code: 'CODED',
    post: false,
    body: false
  },
  'approval infrastructure throw [core-16.infrastructure]': {
    setUp: (f) => {
      f.hook('preExecute', () => ask())
      f.approver = () => Promise.reject(coded())
    },
    code: 'CODED',
    post: false,
    body: false
  },
  'deny [core-16.denial]': {
    setUp: (f) => f.hook('preExecute', () => deny('no')),
    code: 'none',
    post: true,
    body: false
  },
  'guard denial [core-16.denial]': { setUp: (f) => f.guard(() => 'no'), code: 'none', post: true, body: false },
  'approval denial [core-16.denial]': {
    setUp: (f) => {
      f.hook('preExecute', () => ask())
      f.approver = async () => ({ outcome: 'rejected' })
    },
    code: 'none',
    post: true,
    body: false
  },
  'aborted during pre [core-16.aborted-in-policy]': {
    setUp: (f, abort) => f.hook('preExecute', (_e, next) => (abort(), next())),
    code: 'ABORTED_BEFORE_DISPATCH',
    errorName: 'AbortError',
    post: true,
    body: false
  },
  'aborted during approval [core-16.aborted-in-policy]': {
    setUp: (f, abort) => {
      f.hook('preExecute', () => ask())
      f.approver = async () => (abort(), { outcome: 'cancelled' })
    },
    code: 'ABORTED_BEFORE_DISPATCH',
    errorName: 'AbortError',
    post: true,
    body: false
  },
  'aborted during guards [core-16.aborted-in-policy]': {
    setUp: (f, abort) => f.guard(() => (abort(), undefined)),
    code: 'ABORTED_BEFORE_DISPATCH',
    errorName: 'AbortError',
    post: true,
    body: false
  },
  'unknown tool at dispatch [core-16.unknown-tool] [core-30.tool-not-found]': {
    name: 'ghost',
    code: 'UNKNOWN_TOOL',
    errorName: 'ToolNotFoundError',
    post: true,
    body: false
  },
  'aborted before the body inside the around stage [core-16.aborted-before-body]': {
    setUp: (f, abort) =>
      f.hook(
        'execute',
        async (_e, next) => (abort(), { ...(await next()), additionalContexts: [contextFrom('wrapper')] })
      ),
    code: 'ABORTED_BEFORE_DISPATCH',
    errorName: 'AbortError',
    post: true,
    contexts: ['wrapper'],
    body: false
  },
  'typed-argument violation [core-16.typed-arguments]': {
    name: 'need',
    code: 'INVALID_ARGS',
    errorName: 'ToolArgsError',
    post: true,
    body: false
  },
  'body throw [core-16.body-throw]': {
    setUp: (f) => {
      f.boom = defer(throwing(coded()))
    },
    code: 'CODED',
    post: true,
    contexts: ['body'],
    body: true
  },
  'body throw, uncoded [core-16.body-throw] [core-30.uncoded]': {
    setUp: (f) => {
      f.boom = defer(throwing(new Error('x')))
    },
    code: 'none',
    post: true,
    contexts: ['body'],
    body: true
  },
  'body value invalid [core-16.output] [core-30.tool-output]': {
    setUp: (f) => {
      f.boom = defer(() => undefined)
    },
    code: 'INVALID_TOOL_OUTPUT',
    errorName: 'ToolOutputError',
    post: true,
    contexts: ['body'],
    body: true
  },
  'aborted after body success [core-16.aborted-after-body] [core-30.aborted]': {
    setUp: (f, abort) => {
      f.boom = defer(() => (abort(), 1))
    },
    code: 'ABORTED',
    errorName: 'AbortError',
    post: true,
    contexts: ['body'],
    body: true
  },
  'deadline [core-16.deadline]': {
    name: 'coop',
    setUp: (f) => f.tools.mount(timeout),
    code: 'TOOL_TIMEOUT',
    errorName: 'ToolTimeoutError',
    post: true,
    contexts: ['coop'],
    body: true
  },
  'wrapper throw [core-16.wrapper]': {
    setUp: (f) => f.hook('execute', async (_e, next) => (await next(), throwing(coded())())),
    code: 'CODED',
    post: false,
    body: true
  },
  'wrapper garbage [core-16.wrapper]': {
    setUp: (f) => f.hook('execute', () => undefined as never),
    code: 'none',
    post: false,
    body: false
  },
  'wrapper, invalid Success [core-16.wrapper]': {
    name: 'echo',
    setUp: (f) => f.hook('execute', async (_e, next) => ({ ...(await next()), value: 1 }) as never),
    code: 'INVALID_TOOL_OUTPUT',
    errorName: 'ToolOutputError',
    post: false,
    body: true
  },
  'wrapper, Success for an unknown tool [core-16.wrapper] [core-30.tool-not-found]': {
    name: 'ghost',
    setUp: (f) => f.hook('execute', () => ({ isError: false, value: 1, content: [] })),
    code: 'UNKNOWN_TOOL',
    errorName: 'ToolNotFoundError',
    post: false,
    body: false
  },
  'post block [core-16.block]': {
    setUp: (f) => f.hook('postExecute', () => ({ kind: 'block', feedback: [{ type: 'text', text: 'b' }] })),
    code: 'none',
    post: true,
    body: true,
    authored: true
  },
  'post throw [core-16.post]': {
    setUp: (f) => f.hook('postExecute', throwing(coded())),
    code: 'CODED',
    post: true,
    body: true
  },
  'post, bad decision [core-16.post]': {
    setUp: (f) => f.hook('postExecute', () => undefined as never),
    code: 'none',
    post: true,
    body: true
  },
  'post, invalid value replacement [core-16.post]': {
    name: 'echo',
    setUp: (f) => f.hook('postExecute', () => ({ kind: 'accept', value: 1 })),
    code: 'INVALID_TOOL_OUTPUT',
    errorName: 'ToolOutputError',
    post: true,
    body: true
  },
  'result not lossless [core-16.result]': {
    setUp: (f) => f.hook('postExecute', () => ({ kind: 'accept', content: [{ type: 'x', n: 1n as never }] })),
    code: 'none',
    post: true,
    body: true
  },
  'finalizer throw [core-16.finalizer]': {
    setUp: (f) => {
      f.finalizer = throwing(coded())
    },
    code: 'CODED',
    post: true,
    body: true
  },
  'finalizer, not lossless [core-16.finalizer]': {
    setUp: (f) => {
      f.finalizer = () => [1n as never]
    },
    code: 'none',
    post: true,
    body: true
  }
}

describe('the failure taxonomy (core.md §16) [core-13.1] [core-16.content] [core-1.failure-keys]', () => {
  it.each(Object.entries(rows))('%s', async (_origin, row) => {
    const fixture = new PipelineFixture(row.mode && { mode: row.mode })
    fixture.boom = defer(() => 1)
    if (row.name === 'coop') {
      const coop = fixture.registry.lookup('coop')!
      fixture.register({ ...coop, timeoutMs: 5 }, fixture.tree.create('timed'))
    }
    const controller = new AbortController()
    await row.setUp?.(fixture, () => controller.abort())
    if (row.isAbortedAtEntry) controller.abort()
    const scope = fixture.tree.get('timed') ?? fixture.tree.global
    const agent = { id: 'session', scope }
    const { name = 'boom', args = {} } = row
    const result = await fixture.call(name, args, { agent, signal: controller.signal })

    expect(result.isError).toBe(true)
    expect(codeOf(result)).toBe(row.code)
    const { error } = result as Extract<typeof result, { isError: true }>
    expect(error.info?.name).toBe(row.code === 'CODED' ? 'TestError' : row.errorName)
    expect(fixture.stages.includes('post')).toBe(row.post)
    expect(fixture.stages.includes('body')).toBe(row.body)
    expect(contextsOf(result)).toEqual(row.contexts)
    expect('value' in result).toBe(false)
    if (!row.authored) expect(result.content).toEqual([{ type: 'text', text: `Error: ${error.message}` }])
    expect(fixture.stages.filter((stage) => stage === 'observer')).toHaveLength(1)
  })
})
