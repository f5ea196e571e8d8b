import { withClient, withQuery } from './client.ts'
import { defineCommand } from './command.ts'
import { connectionOptions, jsonOption, scopeOption } from './connection.ts'

interface Catalogue {
  readonly schemas: readonly unknown[]
  readonly notes?: readonly unknown[]
}

export const schemas = defineCommand({
  name: 'schemas',
  usage: '',
  summary: 'print the tool schemas of a scope, as a model is given them',
  details: ['JSON in any case: the list alone, laid out, or with --json the whole answer of the server in one line.'],
  options: {
    ...scopeOption,
    format: {
      type: 'string',
      value: 'FORMAT',
      description: 'native (default), openai, openai-responses, anthropic, gemini or mcp.'
    },
    ...jsonOption,
    ...connectionOptions
  },
  examples: [
    ['schemas --format anthropic > tools.json', 'to be sent to a model'],
    ['schemas --scope agent-7', 'what one agent sees']
  ],
  run: ({ values, env, out, err }) =>
    withClient(values, env, async (client) => {
      const { scope = 'global', format } = values
      const path = withQuery(`/scopes/${encodeURIComponent(scope)}/schemas`, { format })
      const { value, text } = await client.ask<Catalogue>(path)
      if (values.json) return out.jsonText(text)
      for (const note of value.notes ?? []) err.line({ text: JSON.stringify(note), style: 'yellow' })
      out.json(value.schemas, 2)
    })
})
