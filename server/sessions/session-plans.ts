import type { Plans, Todo } from '../backends/plans/plans.ts'
import { Session } from './session.ts'

/** Plans in the log of their sessions. */
export const sessionPlans: Plans = {
  async write(agent: object | undefined, todos: readonly Todo[]): Promise<void> {
    if (!(agent instanceof Session)) throw new Error('a plan belongs to a session, and this call has none')
    await agent.append([
      { type: 'todo/write', data: { todos: todos.map(({ content, status }) => ({ content, status })) } }
    ])
  }
}
