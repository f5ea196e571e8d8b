import { text } from '../../server/authoring/content.ts'
import { defineTool } from '../../server/authoring/define-tool.ts'
import type { Questions } from '../../server/backends/questions/questions.ts'
import type { ToolDefinition } from '../../server/tools/definition.ts'
import { definePlugin } from '../define-plugin.ts'

/** The tool `ask_user_question` (backends.md §9). It waits as long as people take: it has no deadline, and holds no place meanwhile. */
export function askUserTool(service: { questions: Questions }): ToolDefinition {
  return defineTool({
    name: 'ask_user_question',
    description:
      'Asks the user and waits for the answers. For decisions that only the user can take: give the options there are, and put all ' +
      'questions of one matter into one call. The user may pick options, answer in own words, or dismiss the questions.',
    parameters: {
      questions: {
        type: 'array',
        required: true,
        items: {
          type: 'object',
          additionalProperties: true,
          properties: {
            id: { type: 'string', required: true, description: 'Names the question in the answers.' },
            question: { type: 'string', required: true },
            header: { type: 'string', description: 'A few words above the question.' },
            options: {
              type: 'array',
              items: {
                type: 'object',
                additionalProperties: true,
                properties: { label: { type: 'string', required: true }, description: { type: 'string' } }
              }
            },
            multi_select: { type: 'boolean', description: 'Whether several options may be picked.' }
          }
        }
      }
    },
    output: {
      schema: {
        type: 'object',
        additionalProperties: false,
        properties: {
          answers: {
            type: 'array',
            required: true,
            items: {
              type: 'object',
              additionalProperties: false,
              properties: {
                id: { type: 'string', required: true },
                selected: { type: 'array', items: { type: 'string' }, required: true },
                custom: { type: 'string' }
              }
            }
          }
        }
      },
      render: (_args, value) => text(JSON.stringify(value))
    },
    async execute({ questions }, { agent, callId, name, signal, awaitPerson }) {
      const asked = { agent, callId, toolName: name, questions, signal }
      const answers = await awaitPerson(service.questions.ask(asked))
      return { answers: [...answers] }
    }
  })
}

export default definePlugin({ name: 'ask-user', needs: ['questions'] }, (tools, services) => {
  tools.register(askUserTool(services))
})
