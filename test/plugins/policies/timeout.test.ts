import { getEventListeners } from 'node:events'
import { describe, expect, it } from 'vitest'
import { timeout } from '../../../plugins/policies/timeout.ts'
import type { RunContext } from '../../../server/pipeline/execution.ts'
import type { ToolResult } from '../../../server/pipeline/result.ts'
import { PipelineFixture, TestError, codeOf, contextFrom } from '../../helpers/pipeline-fixture.ts'

const untilAborted = (exec: RunContext) =>
  new Promise<void>((resolve) => exec.signal.addEventListener('abort', () => resolve(), { once: true }))

const timers = () => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length

/** A fixture with the policy, and a tool `timed` of this budget. */
async function timed(timeoutMs: number, execute: (exec: RunContext) => unknown) {
  const fixture = new PipelineFixture()
  await fixture.tools.mount(timeout)
  fixture.register({
    name: 'timed',
    description: '',
    parameters: { type: 'object' },
    output: { schema: {}, render: () => [] },
    timeoutMs,
    execute: (_args, exec) => execute(exec)
  })
  return fixture
}

describe('the timeout policy (core.md §18)', () => {
  it('C099 a cooperative body past its budget is TOOL_TIMEOUT, its contexts kept, post-execute undisturbed [core-18.3.timeout] [core-18.4.after] [core-30.timeout]', async () => {
    const fixture = await timed(100, async (exec) => {
      exec.deferContext(contextFrom('n'))
      await untilAborted(exec)
      return 'stopped'
    })
    const signals: AbortSignal[] = []
    fixture.hook('postExecute', (exec, _result, next) => (signals.push(exec.signal), next()))
    const call = fixture.start('timed')
    expect(await call.result).toStrictEqual({
      isError: true,
      error: { message: 'tool call timed out after 100ms', info: { name: 'ToolTimeoutError', code: 'TOOL_TIMEOUT' } },
      content: [{ type: 'text', text: 'Error: tool call timed out after 100ms' }],
      additionalContexts: [contextFrom('n')]
    })
    expect(signals).toEqual([call.controller.signal])
    expect(signals[0]?.aborted).toBe(false)
    expect(fixture.stages).toContain('post')
  })

  it('C099 a fast call under a large budget is itself, and leaves no timer and no listener behind [core-18.2]', async () => {
    const seen: AbortSignal[] = []
    const fixture = await timed(2 ** 31 - 1, (exec) => (seen.push(exec.signal), 'fast'))
    const before = timers()
    const call = fixture.start('timed')
    expect(await call.result).toMatchObject({ value: 'fast' })
    expect(seen[0]).not.toBe(call.controller.signal)
    expect(getEventListeners(call.controller.signal, 'abort')).toEqual([])
    expect(timers()).toBe(before)
  })

  it('C099 a tool without a budget gets the caller’s very signal [core-18.1.none]', async () => {
    const fixture = await timed(100, () => null)
    let seen: AbortSignal | undefined
    fixture.boom = (exec) => ((seen = exec.signal), null)
    const call = fixture.start('boom')
    await call.result
    expect(seen).toBe(call.controller.signal)
    expect(codeOf(await fixture.call('ghost'))).toBe('UNKNOWN_TOOL')
  })

  it.each<[string, (exec: RunContext) => Promise<unknown>]>([
    [
      'C100 throws a coded error of its own',
      async (exec) => {
        await untilAborted(exec)
        throw new TestError('WEB_ABORTED', 'x')
      }
    ],
    [
      'throws the reason of its signal',
      async (exec) => {
        await untilAborted(exec)
        throw exec.signal.reason
      }
    ],
    ['returns something invalid', untilAborted]
  ])('a body that at the deadline %s is TOOL_TIMEOUT [core-18.4.late]', async (_what, body) => {
    expect(codeOf(await (await timed(5, body)).call('timed'))).toBe('TOOL_TIMEOUT')
  })

  it('the caller first, the deadline while the body still ends: ABORTED; inner wrappers see the abort [core-18.4.first]', async () => {
    const fixture = await timed(5, async (exec) => {
      await untilAborted(exec)
      // Begun after the policy's own timer and longer: when this one fires, the deadline has passed.
      await new Promise((resolve) => setTimeout(resolve, 20))
      return 'stopped'
    })
    const controller = new AbortController()
    let reason: unknown
    fixture.hook('execute', async (exec, next) => {
      const result = next()
      controller.abort('caller')
      reason = exec.signal.reason
      return result
    })
    const result = await fixture.call('timed', {}, { signal: controller.signal })
    expect(codeOf(result)).toBe('ABORTED')
    expect(reason).toBe('caller')
  })

  it('the budget is that of the tool that the agent sees [core-18.1.budget]', async () => {
    const fixture = await timed(60_000, () => 'global')
    const agent = fixture.agent('a')
    const shadow = fixture.registry.lookup('coop')!
    fixture.register({ ...shadow, name: 'timed', timeoutMs: 5 }, agent.scope)
    expect(codeOf(await fixture.call('timed', {}, { agent }))).toBe('TOOL_TIMEOUT')
    expect(await fixture.call('timed')).toMatchObject({ value: 'global' })
  })

  it('an inner wrapper that dawdles past the deadline is TOOL_TIMEOUT; one that throws has its error [core-18.4.late] [core-18.3.rejects]', async () => {
    const fixture = await timed(5, () => 1)
    const undo = fixture.hook('execute', async (exec, next) => {
      const result = await next()
      await untilAborted(exec as RunContext)
      return result
    })
    expect(codeOf(await fixture.call('timed'))).toBe('TOOL_TIMEOUT')
    undo()
    fixture.hook('execute', async (exec) => {
      await untilAborted(exec as RunContext)
      throw new TestError('WRAPPER', 'x')
    })
    expect(codeOf(await fixture.call('timed'))).toBe('WRAPPER')
  })

  it('another wrapper’s timer, even with a reason of the same shape, is an ordinary cancellation [core-18.3.own]', async () => {
    const fixture = await timed(60_000, async (exec) => (await untilAborted(exec), 1))
    fixture.hook('execute', (exec, next) => {
      const other = new AbortController()
      exec.signal = AbortSignal.any([exec.signal, other.signal])
      setImmediate(() => other.abort({ code: 'TOOL_TIMEOUT', timeoutMs: 60_000 }))
      return next()
    })
    expect(codeOf(await fixture.call('timed'))).toBe('ABORTED')
  })

  it('an outer wrapper finds its own signal again, and may retry within a new budget [core-18.2] [core-18.5.composition]', async () => {
    let attempts = 0
    const fixture = await timed(5, async (exec) => {
      attempts += 1
      if (attempts === 1) await untilAborted(exec)
      return attempts
    })
    const own = new AbortController().signal
    const results: ToolResult[] = []
    fixture.hook(
      'execute',
      async (exec, next) => {
        exec.signal = own
        results.push(await next())
        expect(exec.signal).toBe(own)
        return next()
      },
      { prepend: true }
    )
    expect(await fixture.call('timed')).toMatchObject({ value: 2 })
    expect(results.map(codeOf)).toEqual(['TOOL_TIMEOUT'])
  })
})
