import { describe, expect, it } from 'vitest'
import { deny } from '../../server/pipeline/decisions.ts'
import { PipelineFixture, TestError, codeOf, contextFrom, messageIn } from '../helpers/pipeline-fixture.ts'

const count = (fixture: PipelineFixture) => fixture.stages.filter((stage) => stage === 'finalize').length

describe('the finalizer (core.md §14)', () => {
  it.each<[string, (fixture: PipelineFixture) => Promise<unknown>]>([
    ['a success', (fixture) => fixture.call('echo')],
    ['INVALID_ARGS', (fixture) => fixture.call('need')],
    ['a denial', (fixture) => (fixture.hook('preExecute', () => deny('no')), fixture.call('echo'))],
    [
      'a pre throw',
      (fixture) => (
        fixture.hook('preExecute', () => {
          throw new Error('x')
        }),
        fixture.call('echo')
      )
    ],
    [
      'a wrapper throw',
      (fixture) => (
        fixture.hook('execute', () => {
          throw new Error('x')
        }),
        fixture.call('echo')
      )
    ],
    ['lossy arguments', (fixture) => fixture.call('raw', new Map())],
    ['an abort before the start', (fixture) => fixture.call('echo', {}, { signal: AbortSignal.abort() })],
    [
      'C088 block feedback with a function',
      (fixture) => (
        fixture.hook('postExecute', () => ({ kind: 'block', feedback: [(() => 1) as never] })),
        fixture.call('echo')
      )
    ]
  ])('C086 is called once for %s, with a frozen result [core-14.2.once]', async (_what, run) => {
    const fixture = new PipelineFixture()
    fixture.finalizer = (_exec, result) => {
      expect(Object.isFrozen(result) && Object.isFrozen(result.content)).toBe(true)
      return undefined
    }
    await run(fixture)
    expect(count(fixture)).toBe(1)
  })

  it('C086 undefined keeps the very result [core-14.2.content]', async () => {
    const fixture = new PipelineFixture()
    let seen: unknown
    fixture.finalizer = (_exec, result) => ((seen = result), undefined)
    expect(await fixture.call('echo')).toBe(seen)
  })

  it('C086 replaces the content and nothing else [core-14.2.content]', async () => {
    const fixture = new PipelineFixture()
    const content = [{ type: 'text', text: 'final' }]
    fixture.finalizer = () => content
    fixture.boom = (exec) => (exec.deferContext(contextFrom('n')), exec.concludeTurn(), 1)
    expect(await fixture.call('boom')).toStrictEqual({
      isError: false,
      value: 1,
      content,
      additionalContexts: [contextFrom('n')],
      concludesTurn: true
    })
    expect(await fixture.call('need')).toMatchObject({ error: { info: { code: 'INVALID_ARGS' } }, content })
    expect(Object.isFrozen(content)).toBe(false)
    expect(Object.isFrozen(fixture.observed[0]?.result.content[0])).toBe(true)
  })

  it('C086 a throw is the outcome, and it is not called again [core-14.3]', async () => {
    const fixture = new PipelineFixture()
    fixture.finalizer = () => {
      throw new TestError('F', 'finalizer broke')
    }
    fixture.boom = (exec) => (exec.deferContext(contextFrom('n')), exec.concludeTurn(), 1)
    expect(await fixture.call('boom')).toStrictEqual({
      isError: true,
      error: { message: 'finalizer broke', info: { name: 'TestError', code: 'F' } },
      content: [{ type: 'text', text: 'Error: finalizer broke' }]
    })
    expect(count(fixture)).toBe(1)
  })

  it('writing to the result is a throw [core-14.4.frozen]', async () => {
    const fixture = new PipelineFixture()
    fixture.finalizer = (_exec, result) => {
      ;(result as any).value = 'x'
      return undefined
    }
    expect(codeOf(await fixture.call('echo'))).toBe('none')
  })

  it.each<[string, () => unknown]>([
    ['a promise [core-14.4.lossy]', async () => []],
    ['a rejecting promise', () => Promise.reject(new Error('nobody awaits this'))],
    ['null', () => null],
    ['a string [core-14.4.blocks]', () => 'x'],
    ['something else than blocks [core-14.4.blocks]', () => ['x']],
    ['a function inside [core-14.4.lossy]', () => [{ type: 'text', text: () => 1 }]]
  ])('%s for content is a failure without info', async (_what, finalizer) => {
    const fixture = new PipelineFixture()
    fixture.finalizer = finalizer as never
    const result = await fixture.call('echo')
    expect(codeOf(result)).toBe('none')
    expect(Object.keys(result)).toEqual(['isError', 'error', 'content'])
    expect(fixture.observed[0]?.result).toBe(result)
    expect(count(fixture)).toBe(1)
  })
})

it('C088 lossy policy output is a failure without info, before the finalizer sees it [core-14.1]', async () => {
  const fixture = new PipelineFixture()
  fixture.hook('postExecute', () => ({ kind: 'block', feedback: [{ type: 'text', text: 'x', f: (() => 1) as never }] }))
  let seen: unknown
  fixture.finalizer = (_exec, result) => ((seen = result), undefined)
  const result = await fixture.call('echo')
  expect(seen).toBe(result)
  expect(codeOf(result)).toBe('none')
  expect(messageIn(result)).toContain('lossless')
})

it('C090 the outcome is deeply frozen, and the very object that the observer got [core-14.5]', async () => {
  const fixture = new PipelineFixture()
  fixture.boom = (exec) => (exec.deferContext(contextFrom('n')), { a: { b: [1] } })
  const result: any = await fixture.call('boom')
  const { exec, result: observed } = fixture.observed[0]!
  expect(observed).toBe(result)
  const parts = [result, result.value.a.b, result.content[0], result.additionalContexts[0].source, exec]
  expect(parts.every(Object.isFrozen)).toBe(true)
})
