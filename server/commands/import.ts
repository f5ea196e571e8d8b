import { readFileSync } from 'node:fs'
import { UsageError } from '../command-line.ts'
import { withClient } from './client.ts'
import { defineCommand } from './command.ts'
import { connectionOptions, jsonOption } from './connection.ts'
import { durationMs } from './duration.ts'

interface ImportAnswer {
  readonly scope: string
  readonly tools: readonly { readonly name: string; readonly operation: string }[]
  readonly quarantined: readonly { readonly name: string; readonly changes: readonly string[] }[]
  readonly skipped: readonly { readonly operation: string; readonly reason: string }[]
  readonly notes: readonly string[]
}

export const importTools = defineCommand({
  name: 'import',
  usage: 'FILE',
  summary: 'register a tool for each operation of an OpenAPI document',
  details: [
    'FILE is JSON or YAML, - is standard input. What an earlier import registered under the same names is replaced; what now says something else is hidden until it is accepted.'
  ],
  options: {
    scope: { type: 'string', value: 'SCOPE', description: 'Where to register; the scope of the token if absent.' },
    prefix: { type: 'string', value: 'TEXT', description: 'Put before each name.' },
    'base-url': { type: 'string', value: 'URL', description: 'Where the API is, whatever the document says.' },
    auth: { type: 'string', value: 'NAME', description: 'Configured credentials for the operations that ask for any.' },
    include: {
      type: 'string',
      multiple: true,
      value: 'PATTERN',
      description: 'Only these: an operationId, "METHOD /path" or tag:name, * for any text. Repeatable.'
    },
    exclude: { type: 'string', multiple: true, value: 'PATTERN', description: 'All but these. Repeatable.' },
    timeout: { type: 'string', value: 'TIME', description: 'Deadline of each call, as 30s.' },
    'dry-run': { type: 'boolean', description: 'Only say what would become of it.' },
    ...jsonOption,
    ...connectionOptions
  },
  examples: [
    ['import petstore.yaml --dry-run', 'what it would make'],
    ['import petstore.yaml --scope team-a --prefix pets_ --include "GET *"', 'its reading operations, for one team']
  ],
  run: ({ values, positionals: [file = ''], env, out, err }) =>
    withClient(values, env, async (client) => {
      const { scope, prefix, auth, include, exclude, timeout } = values
      const body = {
        document: readDocument(file),
        scope,
        prefix,
        auth,
        include,
        exclude,
        baseUrl: values['base-url'],
        timeoutMs: timeout === undefined ? undefined : durationMs('timeout', timeout),
        dryRun: values['dry-run']
      }
      const { value, text } = await client.ask<ImportAnswer>('/tools/import', { body })
      if (values.json) return out.jsonText(text)
      const { tools, quarantined, skipped, notes } = value
      out.table(
        ['NAME', 'OPERATION'],
        tools.map(({ name, operation }) => [{ text: name, style: 'cyan' }, operation])
      )
      const note = (line: string): void => err.line({ text: line, style: 'yellow' })
      for (const { name, changes } of quarantined) note(`hidden until it is accepted: ${name} (${changes.join(', ')})`)
      for (const { operation, reason } of skipped) note(`skipped: ${operation}: ${reason}`)
      notes.forEach(note)
    })
})

function readDocument(file: string): string {
  try {
    return readFileSync(file === '-' ? 0 : file, 'utf8')
  } catch (error) {
    throw new UsageError((error as Error).message)
  }
}
