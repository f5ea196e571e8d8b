import { text } from '../../server/authoring/content.ts'
import { defineTool } from '../../server/authoring/define-tool.ts'
import type { Plans, Todo } from '../../server/backends/plans/plans.ts'
import type { ToolDefinition } from '../../server/tools/definition.ts'
import { definePlugin } from '../define-plugin.ts'

export interface TodoOptions {
  /** Whether several items may be in progress at a time. */
  allowParallelInProgress: boolean
}

const statuses = ['pending', 'in_progress', 'completed'] as const

const item = {
  type: 'object',
  additionalProperties: false,
  properties: {
    content: { type: 'string', required: true, description: 'What is to be done, in a few words.' },
    status: { type: 'string', enum: statuses, required: true }
  }
} as const

const count = { type: 'integer', required: true } as const

/** The tool `todo_write` (backends.md §7): replaces the session's plan. */
export function todoTool({ plans }: { plans: Plans }, { allowParallelInProgress }: TodoOptions): ToolDefinition {
  return defineTool({
    name: 'todo_write',
    description:
      'Writes the plan of the current work for the user to see. The whole list is replaced each time: give every item with its ' +
      `status. No two items may be alike${allowParallelInProgress ? '' : ', and one at most may be in progress'}.`,
    parameters: { todos: { type: 'array', items: item, required: true, description: 'The whole plan, in order.' } },
    output: {
      schema: {
        type: 'object',
        additionalProperties: false,
        properties: {
          todos: { type: 'array', items: item, required: true },
          counts: {
            type: 'object',
            additionalProperties: false,
            properties: { pending: count, inProgress: count, completed: count },
            required: true
          }
        }
      },
      render: (_args, { counts: { pending, inProgress, completed } }) =>
        text(`The plan is written: ${pending} pending, ${inProgress} in progress, ${completed} completed.`)
    },
    async execute({ todos: given }, { agent }) {
      const todos = given.map(({ content, status }): Todo => ({ content: content.trim(), status }))
      const numberOf = (meant: Todo['status']): number => todos.filter(({ status }) => status === meant).length
      const counts = {
        pending: numberOf('pending'),
        inProgress: numberOf('in_progress'),
        completed: numberOf('completed')
      }
      assertPlan(todos)
      if (!allowParallelInProgress && counts.inProgress > 1) {
        throw new Error(`${counts.inProgress} items are in progress; only one may be`)
      }
      await plans.write(agent, todos)
      return { todos, counts }
    },
    presentCall: ({ todos }) => ({ card: 'generic', kind: 'other', title: 'Update the plan', rawInput: todos })
  })
}

function assertPlan(todos: readonly Todo[]): void {
  const known = new Set<string>()
  for (const { content } of todos) {
    if (content === '') throw new Error('an item has no content')
    if (known.has(content)) throw new Error(`two items are alike: ${JSON.stringify(content)}`)
    known.add(content)
  }
}

export default definePlugin({ name: 'todo', needs: ['plans'] }, (tools, services, options: TodoOptions) => {
  tools.register(todoTool(services, options))
})
