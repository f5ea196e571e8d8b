import { describe, expect, it } from 'vitest'
import { type RepeatToolReminderOptions, repeatToolReminder } from '../../../plugins/policies/repeat-tool-reminder.ts'
import { block, deny } from '../../../server/pipeline/decisions.ts'
import type { ToolResult } from '../../../server/pipeline/result.ts'
import type { UserMessage } from '../../../server/tools/definition.ts'
import { PipelineFixture, contextFrom, contextsOf } from '../../helpers/pipeline-fixture.ts'

async function reminding(options: RepeatToolReminderOptions = {}) {
  const fixture = new PipelineFixture({ traced: false })
  await fixture.tools.mount(repeatToolReminder, options)
  return { fixture, agent: fixture.agent('a') }
}

const reminderIn = (result: ToolResult): UserMessage | undefined =>
  result.additionalContexts?.find(({ source }) => source.kind === 'plugin' && source.plugin === 'repeat-tool-reminder')

const textOf = (message: UserMessage | undefined): string =>
  (message?.content[0] as { text: string } | undefined)?.text ?? ''

/** At which of these calls a reminder came, counting from 1. */
async function remindedAt(results: Iterable<Promise<ToolResult>>): Promise<number[]> {
  const at: number[] = []
  let index = 0
  for (const result of results) {
    index += 1
    if (reminderIn(await result)) at.push(index)
  }
  return at
}

describe('the repeat-tool reminder (core.md §26)', () => {
  it('C116 escalates at 3, 5 and 8, then falls silent; the result itself is untouched [core-26.defaults] [core-26.message] [core-26.short] [core-26.detailed]', async () => {
    const { fixture, agent } = await reminding()
    const results: ToolResult[] = []
    for (let call = 1; call <= 9; call += 1) results.push(await fixture.call('echo', { text: 'same' }, { agent }))
    const reminders = results.map(reminderIn)
    expect(reminders.map((reminder) => reminder !== undefined)).toEqual(
      [1, 2, 3, 4, 5, 6, 7, 8, 9].map((call) => [3, 5, 8].includes(call))
    )
    expect(reminders[2]).toEqual({
      id: expect.any(String),
      role: 'user',
      content: [{ type: 'text', text: expect.any(String) }],
      source: { kind: 'plugin', plugin: 'repeat-tool-reminder', form: 'notice', summary: 'echo × 3' }
    })
    expect(textOf(reminders[2])).not.toMatch(/echo|same/)
    for (const call of [5, 8]) {
      expect(textOf(reminders[call - 1])).toContain('echo')
      expect(textOf(reminders[call - 1])).toMatch(new RegExp(`: ${call}$`, 'm'))
      expect(textOf(reminders[call - 1])).toContain('{"text":"same"}')
    }
    expect(new Set(reminders.filter(Boolean).map((reminder) => reminder?.id)).size).toBe(3)
    expect(results[2]).toMatchObject({ value: 'same', content: [{ type: 'text', text: 'same' }] })
  })

  it('C116 the lowest threshold is the short one, however they are given [core-26.short] [core-26.config]', async () => {
    const { fixture, agent } = await reminding({ thresholds: [4, 2] })
    const texts: string[] = []
    for (let call = 1; call <= 4; call += 1) {
      const reminder = reminderIn(await fixture.call('echo', {}, { agent }))
      if (reminder) texts.push(textOf(reminder))
    }
    expect(texts.map((text) => text.includes('echo'))).toEqual([false, true])
  })

  const repeat = async (
    options: RepeatToolReminderOptions,
    calls: (fixture: PipelineFixture, agent: any) => Generator<Promise<ToolResult>>
  ) => {
    const { fixture, agent } = await reminding({ thresholds: [2], ...options })
    return remindedAt(calls(fixture, agent))
  }

  it('C117 key order does not matter, array order does; another tracked call resets [core-26.2]', async () => {
    expect(
      await repeat({}, function* (fixture, agent) {
        yield fixture.call('raw', { a: 1, b: { c: 1, d: [1, 2] } }, { agent })
        yield fixture.call('raw', { b: { d: [1, 2], c: 1 }, a: 1 }, { agent })
        yield fixture.call('raw', { a: 1, b: { c: 1, d: [2, 1] } }, { agent })
        yield fixture.call('raw', {}, { agent })
        yield fixture.call('echo', {}, { agent })
        yield fixture.call('raw', {}, { agent })
        yield fixture.call('raw', {}, { agent })
      })
    ).toEqual([2, 7])
  })

  it('an own `__proto__` key is part of the arguments [core-26.hostile]', async () => {
    expect(
      await repeat({}, function* (fixture, agent) {
        yield fixture.call('raw', JSON.parse('{"__proto__":1}'), { agent })
        yield fixture.call('raw', {}, { agent })
        yield fixture.call('raw', JSON.parse('{"__proto__":2}'), { agent })
        yield fixture.call('raw', JSON.parse('{"__proto__":2}'), { agent })
      })
    ).toEqual([4])
  })

  it('C117 excluded calls are transparent, `todo_write` by default [core-26.defaults] [core-26.1]', async () => {
    const around = function* (fixture: PipelineFixture, agent: any) {
      yield fixture.call('echo', {}, { agent })
      yield fixture.call('todo_write', {}, { agent })
      yield fixture.call('todo_write', {}, { agent })
      yield fixture.call('echo', {}, { agent })
    }
    expect(await repeat({}, around)).toEqual([4])
    expect(await repeat({ exclude: [] }, around)).toEqual([3])
  })

  it.each<[RepeatToolReminderOptions, string, boolean]>([
    [{ include: ['pro*'] }, 'probe', true],
    [{ include: ['pro*'] }, 'echo', false],
    [{ include: ['pro*'] }, 'pro', true],
    [{ include: ['*b*'] }, 'probe', true],
    [{ include: ['p*b*e'] }, 'probe', true],
    [{ include: ['p*be*e'] }, 'probe', false],
    [{ include: ['*be*be'] }, 'probe', false],
    [{ include: ['probe*probe'] }, 'probe', false],
    [{ include: ['*x'] }, 'probe', false],
    [{ include: ['x*'] }, 'probe', false],
    [{ include: ['*'] }, 'probe', true],
    [{ include: ['PROBE'] }, 'probe', false],
    [{ include: ['rob'] }, 'probe', false],
    [{ exclude: ['pr.be'] }, 'probe', true],
    [{ exclude: ['probe'] }, 'probe', false],
    [{ include: ['probe'], exclude: ['*'] }, 'probe', false]
  ])('C117 %j tracks %s: %s [core-26.patterns] [core-26.tracked]', async (options, name, tracked) => {
    expect(
      await repeat(options, function* (fixture, agent) {
        yield fixture.call(name, {}, { agent })
        yield fixture.call(name, {}, { agent })
      })
    ).toEqual(tracked ? [2] : [])
  })

  it('C117 denied, failed and unknown calls count; calls without agent and of other agents do not [core-26.reaches] [core-26.3] [core-26.1]', async () => {
    for (const name of ['need', 'boom', 'ghost', 'denied']) {
      const { fixture, agent } = await reminding({ thresholds: [2] })
      fixture.hook('preExecute', (exec, next) => (exec.name === 'denied' ? deny('no') : next()))
      await fixture.call(name, {}, { agent })
      expect(reminderIn(await fixture.call(name, {}, { agent }))).toBeDefined()
    }
    expect(
      await repeat({}, function* (fixture, agent) {
        const other = { id: agent.id, scope: agent.scope }
        yield fixture.call('echo', {}, { agent })
        yield fixture.call('echo', {}, { agent: other })
        yield fixture.call('echo')
        yield fixture.call('echo')
        yield fixture.call('echo', {}, { agent })
      })
    ).toEqual([5])
  })

  it('what does not reach post-execute neither counts nor resets [core-26.reaches]', async () => {
    const { fixture, agent } = await reminding({ thresholds: [2] })
    await fixture.call('echo', {}, { agent })
    await fixture.call('raw', new Map(), { agent })
    await fixture.call('boom', {}, { agent, signal: AbortSignal.abort() })
    expect(reminderIn(await fixture.call('echo', {}, { agent }))).toBeDefined()
  })

  it('C117 a user message resets, a plugin’s does not [core-26.5]', async () => {
    const { fixture, agent } = await reminding({ thresholds: [2] })
    const user: UserMessage = { id: 'u', role: 'user', content: [], source: { kind: 'user' } }
    await fixture.call('echo', {}, { agent })
    fixture.pipeline.stepStarting(agent, [contextFrom('x'), user])
    expect(reminderIn(await fixture.call('echo', {}, { agent }))).toBeUndefined()
    fixture.pipeline.stepStarting(agent, [contextFrom('x')])
    expect(reminderIn(await fixture.call('echo', {}, { agent }))).toBeDefined()
  })

  it('comes first among the contexts of a decision, and keeps what it decides [core-26.4.first]', async () => {
    for (const decision of [block([{ type: 'text', text: 'b' }]), { kind: 'accept' as const, value: 'v' }]) {
      const { fixture, agent } = await reminding({ thresholds: [2] })
      fixture.hook('postExecute', () => ({ ...decision, additionalContexts: [contextFrom('inner')] }))
      await fixture.call('echo', {}, { agent })
      const result = await fixture.call('echo', {}, { agent })
      expect(contextsOf(result)).toEqual(['repeat-tool-reminder', 'inner'])
      expect(result).toMatchObject(decision.kind === 'block' ? { error: { message: 'b' } } : { value: 'v' })
    }
  })

  it('counts a call before what is inside decides, so a throw there counts [core-26.4.counts]', async () => {
    const { fixture, agent } = await reminding({ thresholds: [2] })
    const undo = fixture.hook('postExecute', () => {
      throw new Error('x')
    })
    await fixture.call('echo', {}, { agent })
    undo()
    expect(reminderIn(await fixture.call('echo', {}, { agent }))).toBeDefined()
  })

  it('does not make a decision of what is none', async () => {
    const { fixture, agent } = await reminding({ thresholds: [2] })
    fixture.hook('postExecute', () => undefined as never)
    await fixture.call('echo', {}, { agent })
    expect(await fixture.call('echo', {}, { agent })).toMatchObject({ isError: true, error: {} })
  })

  it.each<[number, string]>([
    [8, '{"text":"abcdef"}'.slice(0, 8) + '… (+9 more chars)'],
    [16, '{"text":"abcdef"}'.slice(0, 16) + '… (+1 more chars)'],
    [17, '{"text":"abcdef"}']
  ])('quotes %i characters of the arguments [core-26.preview]', async (argumentsPreviewChars, quoted) => {
    const { fixture, agent } = await reminding({ thresholds: [2, 3], argumentsPreviewChars })
    for (const _ of [1, 2]) await fixture.call('echo', { text: 'abcdef' }, { agent })
    const text = textOf(reminderIn(await fixture.call('echo', { text: 'abcdef' }, { agent })))
    expect(text).toContain(`: ${quoted}\n`)
  })

  it('does not cut a character in two; the cap is no part of the key [core-26.preview]', async () => {
    const { fixture, agent } = await reminding({ thresholds: [2, 3], argumentsPreviewChars: 10 })
    await fixture.call('echo', { text: '😀a' }, { agent })
    await fixture.call('echo', { text: '😀b' }, { agent })
    for (const _ of [1, 2]) await fixture.call('echo', { text: '😀a' }, { agent })
    const text = textOf(reminderIn(await fixture.call('echo', { text: '😀a' }, { agent })))
    expect(text).toContain(': {"text":"… (+5 more chars)\n')
  })

  it('bears arguments deeper than a call stack [core-26.hostile]', async () => {
    const { fixture, agent } = await reminding({ thresholds: [2] })
    let deep: unknown = {}
    for (let level = 0; level < 20_000; level += 1) deep = { deep }
    await fixture.call('raw', deep, { agent })
    expect(reminderIn(await fixture.call('raw', deep, { agent }))).toBeDefined()
  })

  it.each<RepeatToolReminderOptions>([
    { thresholds: [] },
    { thresholds: [1, 3] },
    { thresholds: [2.5] },
    { thresholds: ['3' as never] },
    { thresholds: [3, 3] },
    { argumentsPreviewChars: 0 },
    { argumentsPreviewChars: 12.5 }
  ])('C117 %j is refused at load [core-26.config] [core-30.plain-error]', async (options) => {
    await expect(reminding(options)).rejects.toThrow(/thresholds|argumentsPreviewChars/)
  })
})
