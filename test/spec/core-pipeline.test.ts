import { describe, expect, it } from 'vitest'
import { timeout } from '../../plugins/policies/timeout.ts'
import { text } from '../../server/authoring/content.ts'
import type { ToolResult } from '../../server/pipeline/result.ts'
import { bareTool } from '../helpers/bare-tool.ts'
import { codeOf, contextFrom, contextsOf, deferred, isPending, PipelineFixture } from '../helpers/pipeline-fixture.ts'

describe('what next() gives a wrapper', () => {
  it.each<[string, string, (fixture: PipelineFixture, abort: () => void) => void]>([
    ['an unknown tool [core-12.1]', 'UNKNOWN_TOOL', () => undefined],
    ['typed arguments that do not fit [core-12.1]', 'INVALID_ARGS', () => undefined],
    [
      'a body that throws [core-12.1]',
      'none',
      (fixture) => {
        fixture.boom = () => Promise.reject(new Error('x'))
      }
    ],
    [
      'a value that is none [core-12.1]',
      'INVALID_TOOL_OUTPUT',
      (fixture) => {
        fixture.boom = () => undefined
      }
    ],
    [
      'an abort [core-12.1]',
      'ABORTED',
      (fixture, abort) => {
        fixture.boom = () => (abort(), 1)
      }
    ]
  ])('is a failure for %s', async (_what, code, setUp) => {
    const fixture = new PipelineFixture()
    const controller = new AbortController()
    setUp(fixture, () => controller.abort())
    const name = code === 'UNKNOWN_TOOL' ? 'ghost' : code === 'INVALID_ARGS' ? 'need' : 'boom'
    let seen: ToolResult | undefined
    fixture.hook('execute', async (_exec, next) => (seen = await next()))
    await fixture.call(name, {}, { signal: controller.signal })
    expect(seen === undefined ? 'nothing' : codeOf(seen)).toBe(code)
  })
})

it('content blocks of types that nobody knows pass through every stage [core-1.content-union]', async () => {
  const fixture = new PipelineFixture()
  const odd = { type: 'hologram', layers: [{ z: 1 }], ['__proto__x']: null }
  fixture.register(bareTool('odd', { output: { schema: {}, render: () => [odd] }, execute: () => 1 }))
  expect((await fixture.call('odd')).content).toEqual([odd])
})

describe('a declared timeout', () => {
  const slow = (timeoutMs: number) => {
    const entered = deferred()
    const timedOut = deferred()
    const released = deferred()
    const tool = bareTool('slow', {
      timeoutMs,
      execute: async (_args, exec) => {
        exec.signal.addEventListener('abort', () => timedOut.resolve(), { once: true })
        entered.resolve()
        await released.promise
        return String(exec.signal.aborted)
      },
      finalizeContent: (_exec, result) => [...result.content, ...text('finalized')]
    })
    return { tool, entered, timedOut, released }
  }

  it('is enforced by nobody without the policy [core-18.7.policy]', async () => {
    const fixture = new PipelineFixture()
    const { tool, entered, released } = slow(1)
    fixture.register(tool)
    const call = fixture.start('slow')
    await entered.promise
    // Begun later and longer than the budget: when this one fires, the budget is over.
    await new Promise((resolve) => setTimeout(resolve, 10))
    expect(await isPending(call.result)).toBe(true)
    released.resolve()
    expect(await call.result).toMatchObject({ isError: false, value: 'false' })
  })

  it('with the policy, the finalizer has its word on TOOL_TIMEOUT, and the call ends when the body does [core-18.4.after] [core-18.5.cooperative]', async () => {
    const fixture = new PipelineFixture()
    await fixture.tools.mount(timeout)
    const { tool, timedOut, released } = slow(1)
    fixture.register(tool)
    const call = fixture.start('slow')
    await timedOut.promise
    expect(await isPending(call.result)).toBe(true)
    released.resolve()
    const result = await call.result
    expect(codeOf(result)).toBe('TOOL_TIMEOUT')
    expect(result.content).toEqual([...text('Error: tool call timed out after 1ms'), ...text('finalized')])
    expect(fixture.stages).toContain('post')
  })
})

describe('a conclusion inside a nested call', () => {
  const nesting = (forwards: boolean) => {
    const fixture = new PipelineFixture()
    fixture.register(
      bareTool('inner', {
        execute: (_args, exec) => {
          exec.deferContext(contextFrom('inner'))
          exec.concludeTurn()
          return 'inner'
        }
      })
    )
    fixture.boom = async (exec) => {
      const inner = await fixture.call('inner', {}, { parent: exec.token, signal: exec.signal })
      const concluded = !inner.isError && inner.concludesTurn === true
      if (forwards && concluded) exec.concludeTurn()
      return { concluded, contexts: contextsOf(inner) ?? [] }
    }
    return fixture
  }

  it.each([true, false])('ends the turn only when its caller says so (%s) [core-19.3.nested]', async (forwards) => {
    const result = await nesting(forwards).call('boom')
    expect(result).toMatchObject({ value: { concluded: true, contexts: ['inner'] } })
    expect('concludesTurn' in result).toBe(forwards)
    expect(contextsOf(result)).toBeUndefined()
  })

  it('is nothing to forward when policy blocked the nested call [core-19.3.nested]', async () => {
    const fixture = nesting(true)
    fixture.hook('postExecute', (exec, _result, next) =>
      exec.name === 'inner' ? { kind: 'block', feedback: text('no') } : next()
    )
    const result = await fixture.call('boom')
    expect(result).toMatchObject({ value: { concluded: false } })
    expect('concludesTurn' in result).toBe(false)
  })
})
