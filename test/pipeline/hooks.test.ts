import { describe, expect, it } from 'vitest'
import { addHook, hooksOf } from '../../server/pipeline/hooks.ts'
import { ScopeTree } from '../../server/scopes/scope-tree.ts'
import { PipelineFixture, codeOf, messageIn } from '../helpers/pipeline-fixture.ts'

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
