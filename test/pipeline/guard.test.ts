import { describe, expect, it } from 'vitest'
import { addGuard } from '../../server/pipeline/guard.ts'
import { PipelineFixture, TestError, codeOf, messageIn } from '../helpers/pipeline-fixture.ts'

describe('guards (core.md §11)', () => {
  const noted = (fixture: PipelineFixture, seen: string[]) => {
    const parent = fixture.agent('p')
    const own = fixture.agent('o', parent.scope)
    const guard = (name: string, answer?: string) => () => (seen.push(name), answer)
    return { parent, own, guard }
  }

  it('C057 run global first, then down the chain; agent-less calls meet the global ones [core-11.2] [core-11.1.when]', async () => {
    const fixture = new PipelineFixture()
    const seen: string[] = []
    const { parent, own, guard } = noted(fixture, seen)
    fixture.guard(guard('g4'), own.scope)
    fixture.guard(guard('g3'), parent.scope)
    fixture.guard(guard('g1'))
    fixture.guard(guard('g2'))
    await fixture.call('echo', {}, { agent: own })
    expect(seen.splice(0)).toEqual(['g1', 'g2', 'g3', 'g4'])
    await fixture.call('echo')
    expect(seen.splice(0)).toEqual(['g1', 'g2'])
    fixture.hook('preExecute', () => ({ kind: 'deny', reason: 'no' }))
    await fixture.call('echo', {}, { agent: own })
    expect(seen).toEqual([])
  })

  it('C057 the first denial ends the pass, and goes through post-execute [core-11.1.first]', async () => {
    const fixture = new PipelineFixture()
    const seen: string[] = []
    const { own, guard } = noted(fixture, seen)
    fixture.guard(guard('g1'))
    fixture.guard(guard('g2', 'stop'))
    fixture.guard(guard('g3'))
    fixture.guard(guard('g4'), own.scope)
    const result = await fixture.call('echo', {}, { agent: own })
    expect(result).toStrictEqual({
      isError: true,
      error: { message: 'stop' },
      content: [{ type: 'text', text: 'Error: stop' }]
    })
    expect(seen).toEqual(['g1', 'g2'])
    expect(fixture.stages).toEqual(['pre', 'guard', 'post', 'finalize', 'observer'])
  })

  it('C058 a throw fails the call, without post-execute and body [core-11.5.throw]', async () => {
    const fixture = new PipelineFixture()
    fixture.guard(() => {
      throw new TestError('G', 'guard broke')
    })
    const result = await fixture.call('echo')
    expect(result).toMatchObject({ error: { message: 'guard broke', info: { name: 'TestError', code: 'G' } } })
    expect(fixture.stages).toEqual(['pre', 'guard', 'finalize', 'observer'])
  })

  it('cannot be got around by a prepended hook that allows [core-11.1.monotonic]', async () => {
    const fixture = new PipelineFixture()
    fixture.guard(() => 'stands')
    fixture.hook('preExecute', () => ({ kind: 'allow' }), { prepend: true })
    expect(messageIn(await fixture.call('echo'))).toBe('stands')
  })

  it.each<[string, () => unknown]>([
    ['null', () => null],
    ['false', () => false],
    ['true', () => true],
    ['0', () => 0],
    ['a promise', () => Promise.resolve(undefined)],
    ['a rejecting promise', () => Promise.reject(new Error('async guard'))]
  ])('fails closed for %s [core-11.5.invalid]', async (_what, answer) => {
    const fixture = new PipelineFixture()
    fixture.guard(answer as () => string)
    const result = await fixture.call('echo')
    expect(codeOf(result)).toBe('none')
    expect(messageIn(result)).toContain('invalid value')
    expect(fixture.stages).toContain('post')
    expect(fixture.stages).not.toContain('body')
  })

  it('an empty string denies, with a default reason', async () => {
    const fixture = new PipelineFixture()
    fixture.guard(() => '')
    expect(messageIn(await fixture.call('echo'))).toContain('echo')
  })

  it('the same function twice is two registrations, each with its own undo [core-11.3]', async () => {
    const fixture = new PipelineFixture({ traced: false })
    let count = 0
    const guard = () => ((count += 1), undefined)
    const first = fixture.guard(guard)
    fixture.guard(guard)
    await fixture.call('echo')
    expect(count).toBe(2)
    first()
    first()
    await fixture.call('echo')
    expect(count).toBe(3)
  })

  it('one added by a running guard of its scope is asked in the same pass [core-11.4.live]', async () => {
    const fixture = new PipelineFixture({ traced: false })
    fixture.guard(() => {
      fixture.guard(() => 'added')
      return undefined
    })
    expect(messageIn(await fixture.call('echo'))).toBe('added')
  })

  it('one added after the pass emptied its scope waits for the next call [core-11.4.emptied]', async () => {
    const fixture = new PipelineFixture({ traced: false })
    const undo = fixture.guard(() => {
      undo()
      fixture.guard(() => 'next time')
      return undefined
    })
    expect(await fixture.call('echo')).toMatchObject({ isError: false })
    expect(messageIn(await fixture.call('echo'))).toBe('next time')
  })

  it('one taken back during the pass is not asked', async () => {
    const fixture = new PipelineFixture({ traced: false })
    fixture.guard(() => (undo(), undefined))
    const undo = fixture.guard(() => 'gone')
    expect(await fixture.call('echo')).toMatchObject({ isError: false })
  })

  it('are cleared with their scope, after which an old undo does nothing', async () => {
    const fixture = new PipelineFixture({ traced: false })
    const agent = fixture.agent('a')
    const undo = fixture.guard(() => 'old', agent.scope)
    agent.scope.clear()
    expect(await fixture.call('echo', {}, { agent })).toMatchObject({ isError: false })
    fixture.guard(() => 'new', agent.scope)
    undo()
    expect(messageIn(await fixture.call('echo', {}, { agent }))).toBe('new')
  })

  it('must be functions', () => {
    const fixture = new PipelineFixture()
    expect(() => addGuard(fixture.tree.global, 'no' as never)).toThrow(TypeError)
  })
})
