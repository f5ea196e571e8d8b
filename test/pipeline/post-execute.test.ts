import { describe, expect, it } from 'vitest'
import { accept, block } from '../../server/pipeline/decisions.ts'
import { PipelineFixture, TestError, codeOf, contextFrom, contextsOf, messageIn } from '../helpers/pipeline-fixture.ts'

const text = (words: string) => ({ type: 'text', text: words })

/** A call of `meta` or `boom` whose post-execute stage answers this. */
const posted = async (decision: unknown, name = 'meta', boom?: PipelineFixture['boom']) => {
  const fixture = new PipelineFixture()
  if (boom) fixture.boom = boom
  fixture.hook('postExecute', () => decision as never)
  return { result: await fixture.call(name, { v: 'body' }), fixture }
}

describe('accept (core.md §13.2)', () => {
  it('with nothing else leaves the result as it is [core-13.2.nothing]', async () => {
    const fixture = new PipelineFixture()
    let seen: unknown
    fixture.hook('postExecute', (_exec, result, next) => ((seen = result), next()))
    expect(await fixture.call('echo', { text: 'x' })).toBe(seen)
  })

  it('C079 content replaces the content only [core-13.2.content] [core-13.6]', async () => {
    const { result } = await posted({ kind: 'accept', content: [text('other')] })
    expect(result).toStrictEqual({
      isError: false,
      value: 'body',
      content: [text('other')],
      meta: { projected: 'body' }
    })
  })

  it('content may replace a failure’s too, which stays the failure it was [core-13.2.content]', async () => {
    const { result } = await posted({ kind: 'accept', content: [text('other')] }, 'boom', () => {
      throw new TestError('CODED', 'coded')
    })
    expect(result).toStrictEqual({
      isError: true,
      error: { message: 'coded', info: { name: 'TestError', code: 'CODED' } },
      content: [text('other')]
    })
  })

  it('C080 a value is projected anew, and keeps contexts and conclusion [core-13.2.value] [core-13.2.contexts] [core-19.3.preserved]', async () => {
    expect((await posted({ kind: 'accept', value: 'p' })).result).toStrictEqual({
      isError: false,
      value: 'p',
      content: [text('p')],
      meta: { projected: 'p' }
    })
    const { result } = await posted(
      { kind: 'accept', value: 2, additionalContexts: [contextFrom('p')] },
      'boom',
      (exec) => {
        exec.concludeTurn()
        exec.deferContext(contextFrom('n'))
        return 1
      }
    )
    expect(result).toMatchObject({ value: 2, concludesTurn: true })
    expect(contextsOf(result)).toEqual(['n', 'p'])
  })

  it('a conclusion survives the replacement of the content [core-19.3.preserved]', async () => {
    const { result } = await posted({ kind: 'accept', content: [] }, 'boom', (exec) => (exec.concludeTurn(), 1))
    expect(result).toMatchObject({ value: 1, content: [], concludesTurn: true })
  })

  it.each([
    ['of the wrong type [core-13.2.value] [core-30.tool-output]', { kind: 'accept', value: 1 }],
    ['undefined [core-9.5.post-value-undefined]', { kind: 'accept', value: undefined }]
  ])('C080 a value %s is INVALID_TOOL_OUTPUT', async (_what, decision) => {
    const { result } = await posted(decision)
    expect(codeOf(result)).toBe('INVALID_TOOL_OUTPUT')
    expect(Object.keys(result)).toEqual(['isError', 'error', 'content'])
  })

  it('C080 a value for a tool that is gone is UNKNOWN_TOOL [core-13.2.value] [core-30.tool-not-found]', async () => {
    const fixture = new PipelineFixture()
    const undo = fixture.register({
      name: 'mine',
      description: '',
      parameters: { type: 'object' },
      output: { schema: {}, render: () => [] },
      execute: () => 1
    })
    fixture.hook('postExecute', () => (undo(), { kind: 'accept', value: 2 }))
    expect(codeOf(await fixture.call('mine'))).toBe('UNKNOWN_TOOL')
  })

  it('C081 a value on a failed call fails with another message [core-13.2.value]', async () => {
    const { result } = await posted({ kind: 'accept', value: 1 }, 'boom')
    expect(codeOf(result)).toBe('none')
    expect(messageIn(result)).not.toBe('exploded')
  })
})

describe('decisions that are none (core.md §9.5)', () => {
  it.each<[string, unknown]>([
    ['undefined [core-9.5.post-undefined]', undefined],
    ['a string', 'accept'],
    ['an unknown kind [core-9.5.post-kind] [core-30.uncoded]', { kind: 'maybe' }],
    ['no kind', {}],
    ['C081 content and value [core-9.5.post-both]', { kind: 'accept', content: [], value: 'x' }],
    ['content and value, one undefined [core-9.5.post-both]', { kind: 'accept', content: undefined, value: 'x' }],
    ['content that is no list', { kind: 'accept', content: 'x' }],
    ['content undefined', { kind: 'accept', content: undefined }],
    ['contexts that are no list', { kind: 'accept', additionalContexts: {} }],
    ['block without feedback [core-9.5.post-feedback]', { kind: 'block' }],
    ['block with feedback that is no list', { kind: 'block', feedback: 'no' }],
    ['block with contexts that are no list', { kind: 'block', feedback: [], additionalContexts: 'x' }]
  ])('%s fails the call, closed', async (_what, decision) => {
    const { result } = await posted(decision)
    expect(codeOf(result)).toBe('none')
    expect(Object.keys(result)).toEqual(['isError', 'error', 'content'])
  })

  it.each<[string, unknown]>([
    ['content of something else than blocks', { kind: 'accept', content: ['text'] }],
    ['feedback of something else than blocks', { kind: 'block', feedback: [{ text: 'x' }] }],
    ['a bigint in a context', { kind: 'accept', additionalContexts: [{ ...contextFrom('x'), n: 1n }] }]
  ])('%s fails when the result is materialised, without contexts', async (_what, decision) => {
    const { result } = await posted(decision, 'boom', (exec) => (exec.deferContext(contextFrom('n')), 1))
    expect(codeOf(result)).toBe('none')
    expect(Object.keys(result)).toEqual(['isError', 'error', 'content'])
  })

  it('what the outermost listener returns is what counts [core-9.2.outermost]', async () => {
    const fixture = new PipelineFixture()
    fixture.hook('postExecute', async (_exec, _result, next) => (await next(), accept()), { prepend: true })
    fixture.hook('postExecute', () => block([text('inner')]))
    expect(await fixture.call('echo')).toMatchObject({ isError: false })
  })
})

describe('block (core.md §13.3)', () => {
  it('C082 the feedback verbatim, and nothing else of the result [core-13.3.shape] [core-30.uncoded]', async () => {
    const { result } = await posted({ kind: 'block', feedback: [text('blocked')] })
    expect(result).toStrictEqual({ isError: true, error: { message: 'blocked' }, content: [text('blocked')] })
  })

  it.each<[unknown[], RegExp]>([
    [[], /./],
    [[text('')], /./],
    [[{ type: 'reasoning', text: 'hm' }], /^\[reasoning content\]$/],
    [[text('a'), { type: 'image' }, text('b')], /^a\n\[image content\]\nb$/],
    [[{ type: 'text', text: 1 }], /^\[text content\]$/]
  ])('C082 the message of %j [core-13.3.message] [core-1.content-union]', async (feedback, message) => {
    const { result } = await posted({ kind: 'block', feedback })
    expect(messageIn(result)).toMatch(message)
    expect(result.content).toEqual(feedback)
  })

  it('keeps only its own contexts, and erases the code of a failure [core-13.3.contexts] [core-13.3.erases]', async () => {
    const { result } = await posted(
      { kind: 'block', feedback: [text('b')], additionalContexts: [contextFrom('b')] },
      'boom',
      (exec) => {
        exec.deferContext(contextFrom('n'))
        throw new TestError('CODED', 'coded')
      }
    )
    expect(contextsOf(result)).toEqual(['b'])
    expect(codeOf(result)).toBe('none')
  })
})

it.each([
  [new Error('p'), 'none'],
  [new TestError('P', 'p'), 'P']
])('a throw (%s) loses value, meta and contexts (core.md §13.4) [core-13.4]', async (error, code) => {
  const fixture = new PipelineFixture()
  fixture.boom = (exec) => (exec.deferContext(contextFrom('n')), 1)
  fixture.hook('postExecute', () => {
    throw error
  })
  const result = await fixture.call('boom')
  expect(messageIn(result)).toBe('p')
  expect(codeOf(result)).toBe(code)
  expect(Object.keys(result)).toEqual(['isError', 'error', 'content'])
})

it('the result is frozen for listeners, contexts of a body included, which are not frozen in place', async () => {
  const fixture = new PipelineFixture()
  const own = contextFrom('n')
  fixture.boom = (exec) => (exec.deferContext(own), 1)
  fixture.hook('postExecute', (_exec, result, next) => {
    expect(() => ((result as any).additionalContexts[0].id = 'x')).toThrow(TypeError)
    expect(() => ((result as any).value = 2)).toThrow(TypeError)
    return next()
  })
  expect(await fixture.call('boom')).toMatchObject({ value: 1 })
  expect(Object.isFrozen(own)).toBe(false)
})
