import { withClient } from './client.ts'
import { defineCommand } from './command.ts'
import { connectionOptions, jsonOption } from './connection.ts'

interface SessionRow {
  readonly id: string
  readonly scope: string
  readonly createdAt: number
  readonly cwd?: string
  readonly turn: number
  readonly isTurnOpen: boolean
}

export const sessions = defineCommand({
  name: 'sessions',
  usage: '[SESSION]',
  summary: 'list the stored sessions, or show one of them',
  options: {
    scope: {
      type: 'string',
      value: 'SCOPE',
      description: 'Of this scope and of all below it; that of the token if absent.'
    },
    ...jsonOption,
    ...connectionOptions
  },
  examples: [
    ['sessions', 'all that the token may see'],
    ['sessions s-42 --json', 'one, for a program']
  ],
  run: ({ values, positionals: [id], env, out }) =>
    withClient(values, env, async (client) => {
      const found =
        id === undefined
          ? client.list<SessionRow>('/sessions', 'sessions', { scope: values.scope, limit: '500' })
          : [(await client.ask<SessionRow>(`/sessions/${encodeURIComponent(id)}`)).value]
      const rows: SessionRow[] = []
      for await (const session of found) {
        if (values.json) out.json(session)
        else rows.push(session)
      }
      out.table(
        ['SESSION', 'SCOPE', 'CREATED', 'TURN', 'DIRECTORY'],
        rows.map(({ id, scope, createdAt, turn, isTurnOpen, cwd }) => [
          { text: id, style: 'cyan' },
          scope,
          new Date(createdAt).toISOString(),
          `${turn}${isTurnOpen ? '' : ' (closed)'}`,
          cwd ?? '-'
        ])
      )
    })
})
