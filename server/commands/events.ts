import { UsageError } from '../command-line.ts'
import { withClient } from './client.ts'
import { defineCommand } from './command.ts'
import { connectionOptions, jsonOption } from './connection.ts'
import { inOneLine, type Output } from './output.ts'
import { follow, type SeenEvent } from './subscription.ts'

export const events = defineCommand({
  name: 'events',
  usage: '',
  summary: 'print the events of a session, or follow what happens',
  details: [
    'One event a line. Without --follow it prints what is stored of a session and ends. With it, it goes on until it is interrupted, over lost connections and restarts of the server: each stored event comes once and in order. Live events, such as tool/progress, are not stored and do not come again.'
  ],
  options: {
    follow: { type: 'boolean', description: 'Go on with what happens from now; with --after, from there.' },
    session: { type: 'string', value: 'SESSION', description: 'Only of this session; needed without --follow.' },
    scope: { type: 'string', value: 'SCOPE', description: 'With --follow: only of this scope and of all below it.' },
    type: {
      type: 'string',
      multiple: true,
      value: 'TYPE',
      description: 'Only of this type; tool/* is all that begin so. Repeatable.'
    },
    after: {
      type: 'string',
      value: 'NUMBER',
      description: 'The last event seen: a seq with --session, else a position. --after=-1 is from the start.'
    },
    ...jsonOption,
    ...connectionOptions
  },
  examples: [
    ['events --session s-42', 'all that is stored of a session'],
    ['events --follow --type "tool/*"', 'calls and results as they happen'],
    ['events --follow --after=-1 --json | jq -c .data', 'everything, from the start, for a program']
  ],
  run: ({ values, env, out, err }) =>
    withClient(values, env, async (client) => {
      const { session, scope, type: types, after, json } = values
      if (after !== undefined && !/^(-1|\d{1,15})$/.test(after)) throw new UsageError('--after takes a number, or -1')
      const onEvent = (event: SeenEvent): void => (json ? out.json(event) : showEvent(out, event))
      if (values.follow) {
        const request = { session, scope, events: types, after: after === undefined ? undefined : Number(after) }
        const onNote = (text: string): void => err.line({ text: `toolwright: ${text}`, style: 'yellow' })
        return follow(client, request, { onEvent, onNote })
      }
      if (session === undefined) throw new UsageError('events needs --session or --follow')
      if (scope !== undefined) throw new UsageError('--scope goes with --follow')
      const path = `/sessions/${encodeURIComponent(session)}/events`
      for await (const event of client.list<SeenEvent>(path, 'events', {
        after,
        type: types?.join(','),
        limit: '500'
      })) {
        onEvent(event)
      }
    })
})

/** What a person is shown of one event: when, where, what, and as much of the rest as fits. */
function showEvent(out: Output, { type, session, seq, time, data, ...live }: SeenEvent): void {
  const place = session === undefined ? '' : `${session}${seq === undefined ? '' : `#${seq}`} `
  out.line(
    { text: `${new Date(time ?? Date.now()).toISOString()} `, style: 'dim' },
    { text: place, style: 'cyan' },
    { text: type, style: 'bold' },
    ` ${brief(data ?? live)}`
  )
}

const maxShown = 500

function brief(data: unknown): string {
  const text = inOneLine(JSON.stringify(data))
  return text.length <= maxShown ? text : `${text.slice(0, maxShown)}…`
}
