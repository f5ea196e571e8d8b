import { expect, it } from 'vitest'
import todo, { todoTool } from '../../../plugins/tools/todo.ts'
import type { CallAnswer } from '../../../server/invocations/answer.ts'
import type { JsonValue } from '../../../server/json/lossless.ts'
import { sessionPlans } from '../../../server/sessions/session-plans.ts'
import { CallFixture } from '../../helpers/call-fixture.ts'
import { agentOf, runContext } from '../../helpers/run-context.ts'

async function open(allowParallelInProgress = true) {
  const fixture = new CallFixture()
  await fixture.tools.mount(todo, { allowParallelInProgress }, () => sessionPlans)
  let calls = 0
  const write = async (todos: JsonValue): Promise<CallAnswer> => {
    const call = { session: await fixture.open(), callId: `c${++calls}`, name: 'todo_write' }
    return fixture.invocations.invoke({ ...call, arguments: { todos } })
  }
  const plans = async () => {
    const page = await fixture.log.read({ session: 's1', after: -1, limit: 500, types: ['todo/write'] })
    return page.events.map(({ data }) => data)
  }
  return { fixture, write, plans }
}

const item = (content: string, status = 'pending') => ({ content, status })

it('C67 logs the whole plan, trimmed, and counts it', async () => {
  const { write, plans } = await open()
  const answer = await write([item(' a '), item('b', 'in_progress'), item('c', 'completed')])
  const todos = [item('a'), item('b', 'in_progress'), item('c', 'completed')]
  expect(answer).toMatchObject({
    isError: false,
    value: { todos, counts: { pending: 1, inProgress: 1, completed: 1 } },
    content: [{ type: 'text', text: 'The plan is written: 1 pending, 1 in progress, 1 completed.' }]
  })
  await write([])
  expect(await plans()).toEqual([{ todos }, { todos: [] }])
})

it('C67 logs nothing of a list that is not valid', async () => {
  const { write, plans } = await open(false)
  const bad = [
    [item('a'), item(' a ')],
    [item(' ')],
    [{ ...item('a'), extra: 1 }],
    [item('a', 'done')],
    [{ content: 'a' }],
    'a',
    [item('a', 'in_progress'), item('b', 'in_progress')]
  ]
  for (const todos of bad) expect((await write(todos)).isError).toBe(true)
  expect(await plans()).toEqual([])
  expect((await write([item('a', 'in_progress'), item('b')])).isError).toBe(false)
})

it('C67 lets several items be in progress where that is allowed', async () => {
  const { write } = await open(true)
  expect((await write([item('a', 'in_progress'), item('b', 'in_progress')])).isError).toBe(false)
})

it('looks at the list before it looks for a session', async () => {
  const tool = todoTool({ plans: sessionPlans }, { allowParallelInProgress: false })
  const write = async (todos: JsonValue, more: object) => tool.execute({ todos }, runContext(more))
  await expect(write([item(' ')], {})).rejects.toThrow(/no content/)
  for (const more of [{}, { agent: agentOf('A') }]) {
    await expect(write([item('a')], more)).rejects.toThrow(/session/)
  }
  expect(tool.presentCall?.({ todos: [item('a')] })).toMatchObject({ kind: 'other', rawInput: [item('a')] })
})
