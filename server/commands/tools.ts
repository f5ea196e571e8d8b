import { withClient, withQuery } from './client.ts'
import { defineCommand } from './command.ts'
import { connectionOptions, jsonOption, scopeOption } from './connection.ts'

interface ToolRow {
  readonly name: string
  readonly scope?: string
  readonly origin: string
  readonly description: string
}

export const tools = defineCommand({
  name: 'tools',
  usage: '[NAME]',
  summary: 'list the tools that a scope sees, or show one of them',
  options: { ...scopeOption, ...jsonOption, ...connectionOptions },
  examples: [
    ['tools', 'what can be called'],
    ['tools bash', 'one tool, with its parameters and limits'],
    [`tools --scope agent-7 --json | jq -r .name`, 'the names alone']
  ],
  run: ({ values, positionals: [name], env, out }) =>
    withClient(values, env, async (client) => {
      const { scope } = values
      if (name !== undefined) {
        const { value, text } = await client.ask(withQuery(`/tools/${encodeURIComponent(name)}`, { scope }))
        if (values.json) out.jsonText(text)
        else out.json(value, 2)
        return
      }
      const rows: ToolRow[] = []
      for await (const tool of client.list<ToolRow>('/tools', 'tools', { scope, limit: '500' })) {
        if (values.json) out.json(tool)
        else rows.push(tool)
      }
      out.table(
        ['NAME', 'SCOPE', 'ORIGIN', 'DESCRIPTION'],
        rows.map((tool) => [
          { text: tool.name, style: 'cyan' },
          tool.scope ?? '-',
          tool.origin,
          tool.description.split('\n', 1)[0] ?? ''
        ])
      )
    })
})
