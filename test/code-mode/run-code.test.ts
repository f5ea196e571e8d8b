import { describe, expect, it } from 'vitest'
import { CodedError } from '../../server/errors.ts'
import type { RunResult } from '../../server/code-runtime/code-runtime.ts'
import { callCard } from '../../server/tools/cards.ts'
import { CodeModeFixture, scripted, textOf, valueOf } from '../helpers/code-mode-fixture.ts'
import { codeOf, messageIn } from '../helpers/pipeline-fixture.ts'

/** A runtime that answers with what the test says, and counts. */
function answering(answer: () => RunResult | Promise<RunResult>) {
  const runtime = { language: 'typescript', runs: 0, run: async () => ((runtime.runs += 1), answer()) }
  return runtime
}

describe('run_code (code-mode.md §2)', () => {
  it('C008 arguments: both are needed, as strings; others are ignored', async () => {
    const runtime = answering(() => ({ logs: [] }))
    const fixture = new CodeModeFixture({ runtime })
    for (const args of [
      { code: 'return 1' },
      { description: 'x' },
      { code: 1, description: 'x' },
      { code: '', description: null },
      [],
      'x'
    ]) {
      const result = await fixture.call('run_code', args)
      expect([args, codeOf(result)]).toEqual([args, 'INVALID_ARGS'])
    }
    for (const description of ['', '  ', '\n\t\u00a0']) {
      const result = await fixture.call('run_code', { code: 'return 1', description })
      expect([result.isError, codeOf(result)]).toEqual([true, 'none'])
    }
    expect(runtime.runs).toBe(0)
    expect(fixture.events).toEqual([])
    const result = await fixture.call('run_code', { code: '', description: 'x', extra: 1 })
    expect(textOf(result)).toBe('(run_code completed with no output)')
    expect(valueOf(result)).toEqual({ logs: [] })
  })

  it.each([
    [{ logs: ['p'], value: 'r' }, 'p\nr'],
    [{ logs: [], value: { n: 42, ok: true } }, '{\n  "n": 42,\n  "ok": true\n}'],
    [{ logs: [], value: null }, 'null'],
    [{ logs: [''], value: '' }, '(run_code completed with no output)'],
    [{ logs: ['a', '', 'b'] }, 'a\n\nb']
  ] as [RunResult, string][])('C009 %j is rendered', async (outcome, text) => {
    const result = await new CodeModeFixture({ runtime: answering(() => outcome) }).run('')
    expect(textOf(result)).toBe(text)
    expect(Object.keys(valueOf(result))).toEqual('value' in outcome ? ['logs', 'result'] : ['logs'])
  })

  it('a failed run: kind, diagnostic, and the output only if there is any (§2.5) [core-30.code-run]', async () => {
    const outcome = (logs: string[]): RunResult => ({ logs, error: { kind: 'timeout', message: 'too long' } })
    const silent = await new CodeModeFixture({ runtime: answering(() => outcome([])) }).run('')
    expect(silent).toMatchObject({
      isError: true,
      error: { info: { name: 'CodeRunFailedError', code: 'CODE_RUN_FAILED' } }
    })
    expect(messageIn(silent)).toBe('code run failed (timeout): too long')
    const talking = await new CodeModeFixture({ runtime: answering(() => outcome(['a', 'b'])) }).run('')
    expect(textOf(talking)).toBe('Error: code run failed (timeout): too long\nCaptured output:\na\nb')
  })

  it('a runtime that rejects is an ordinary error; at its limit it says OVERLOADED (§2.5, §11)', async () => {
    const rejecting = (error: Error): CodeModeFixture => {
      const refused = answering(() => {
        throw error
      })
      return new CodeModeFixture({ runtime: refused })
    }
    const misused = await rejecting(new Error('disposed')).run('')
    expect([codeOf(misused), messageIn(misused)]).toEqual(['none', 'disposed'])
    const overloaded = await rejecting(new CodedError('OVERLOADED', 'maxQueuedRuns (64) wait')).run('')
    expect([codeOf(overloaded), messageIn(overloaded)]).toEqual([
      'OVERLOADED',
      expect.stringContaining('maxQueuedRuns')
    ])
  })

  it('C058 a call that is aborted before it begins asks no runtime', async () => {
    const runtime = answering(() => ({ logs: [] }))
    const fixture = new CodeModeFixture({ runtime })
    const result = await fixture.run('', { signal: AbortSignal.abort('user-cancel') })
    expect(codeOf(result)).toBe('ABORTED_BEFORE_DISPATCH')
    expect([runtime.runs, fixture.events]).toEqual([0, []])
  })

  it('a success whose signal fired is ABORTED; a failed run stays what it is (§2.5)', async () => {
    const controller = new AbortController()
    const runtime = answering(() => (controller.abort(), { logs: [], value: 1 }))
    const fixture = new CodeModeFixture({ runtime })
    expect(codeOf(await fixture.run('', { signal: controller.signal }))).toBe('ABORTED')
    const second = new AbortController()
    fixture.runtime = scripted(async () => (second.abort('stop'), new Promise(() => {})))
    const failed = await fixture.run('', { signal: second.signal })
    expect([codeOf(failed), messageIn(failed)]).toEqual(['CODE_RUN_FAILED', 'code run failed (abort): stop'])
  })

  it('is exclusive, has a card of its call and none of its result', () => {
    const fixture = new CodeModeFixture({ runtime: answering(() => ({ logs: [] })) })
    const input = {
      callId: 'c',
      name: 'run_code',
      arguments: {},
      agent: fixture.agent,
      signal: new AbortController().signal
    }
    expect(fixture.pipeline.executionMode(input)).toEqual({ kind: 'exclusive' })
    const tool = fixture.registry.lookup('run_code', fixture.agent.scope)
    expect(callCard(tool, JSON.stringify({ code: 'return 1', description: 'Counts' }))).toEqual({
      card: 'generic',
      title: 'Counts',
      kind: 'execute',
      rawInput: 'return 1'
    })
    expect(callCard(tool, '{"code":1}')).toBeUndefined()
    expect([tool?.presentResult, tool?.timeoutMs]).toEqual([undefined, undefined])
  })

  it('log entries are told live, as lines', async () => {
    const fixture = new CodeModeFixture({
      runtime: scripted(async (_tools, { onLog }) => (onLog?.('a'), onLog?.('b'), undefined))
    })
    await fixture.run('')
    expect(fixture.progress).toEqual(['a\n', 'b\n'])
  })
})
