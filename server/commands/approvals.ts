import { UsageError } from '../command-line.ts'
import { checkedJson } from './call-arguments.ts'
import { type Client, withClient } from './client.ts'
import { type CommandInput, defineCommand } from './command.ts'
import { connectionOptions, jsonOption } from './connection.ts'
import type { Output } from './output.ts'

interface ApprovalRow {
  readonly id: string
  readonly kind: 'tool' | 'question'
  readonly session: string
  readonly toolName: string
  readonly reason?: string
  readonly arguments?: unknown
  readonly questions?: readonly unknown[]
  readonly hash: string
  readonly createdAt: number
  readonly expiresAt?: number
  readonly outcome?: string
}

const options = {
  reason: { type: 'string', value: 'TEXT', description: 'allow, deny: for the record.' },
  hash: { type: 'string', value: 'HASH', description: 'allow, deny: what the list showed; nothing else is decided.' },
  arguments: { type: 'string', value: 'JSON', description: 'allow: run with these instead.' },
  ...jsonOption,
  ...connectionOptions
} as const

export const approvals = defineCommand({
  name: 'approvals',
  usage: '[allow|deny|answer] [ID] [JSON]',
  summary: 'list what waits for a person, and decide it',
  details: [
    'A decision counts once. A question is answered with the JSON of its answers, or dismissed with deny. With --hash nothing is allowed but what was seen.'
  ],
  options,
  examples: [
    ['approvals', 'what is waiting, with what would run'],
    ['approvals allow 0b0e2a52-7a4b-4a4e-9a70-3c1f6e1d2c3b --reason "looked at it"', 'let it run'],
    [`approvals answer ID '[{"id":"q1","selected":["yes"]}]'`, 'answer a question']
  ],
  run: (input) => {
    const [word, id, answers] = input.positionals
    if (word === undefined) return withClient(input.values, input.env, (client) => list(client, input))
    const verdict = verdictOf(word, id, answers, input.values)
    return withClient(input.values, input.env, (client) => decide(client, id ?? '', verdict, input))
  }
})

function verdictOf(
  word: string,
  id: string | undefined,
  answers: string | undefined,
  { reason, hash, arguments: edited }: CommandInput<typeof options>['values']
): string {
  if (!['allow', 'deny', 'answer'].includes(word)) {
    throw new UsageError(`approvals takes allow, deny or answer, not ${JSON.stringify(word)}`)
  }
  if (id === undefined) throw new UsageError(`approvals ${word} takes the ID of an approval`)
  if ((answers !== undefined) !== (word === 'answer'))
    throw new UsageError('answers as JSON go with `approvals answer`')
  if (edited !== undefined && word !== 'allow') throw new UsageError('--arguments goes with `approvals allow`')
  const members: [string, string | undefined][] = [
    ['decision', word === 'answer' ? undefined : JSON.stringify(word)],
    ['answers', answers === undefined ? undefined : checkedJson(answers, 'the answers are')],
    // As it was typed: what JavaScript makes of a number need not be the number.
    ['arguments', edited === undefined ? undefined : checkedJson(edited, '--arguments is')],
    ['reason', JSON.stringify(reason)],
    ['hash', JSON.stringify(hash)]
  ]
  const given = members.filter(([, text]) => text !== undefined)
  return `{${given.map(([name, text]) => `"${name}":${text}`).join(',')}}`
}

async function decide(client: Client, id: string, body: string, { values, out }: CommandInput): Promise<void> {
  const { value, text } = await client.ask<ApprovalRow>(`/approvals/${encodeURIComponent(id)}`, { body })
  if (values.json) out.jsonText(text)
  else out.line(`${value.toolName} of session ${value.session}: ${value.outcome ?? 'decided'}`)
}

async function list(client: Client, { values, out }: CommandInput): Promise<void> {
  for await (const approval of client.list<ApprovalRow>('/approvals', 'approvals', { limit: '500' })) {
    if (values.json) out.json(approval)
    else show(out, approval)
  }
}

/** In whole, on as many lines as it takes: what is not seen must not be approved. */
function show(out: Output, approval: ApprovalRow): void {
  const { id, kind, toolName, session, createdAt, expiresAt, reason, hash } = approval
  out.line({ text: id, style: 'cyan' }, ' ', { text: toolName, style: 'bold' }, ` (${kind}, session ${session})`)
  out.line(
    `  asked ${new Date(createdAt).toISOString()}${expiresAt ? `, until ${new Date(expiresAt).toISOString()}` : ''}`
  )
  if (reason !== undefined) out.line(`  reason: ${reason}`)
  const what = JSON.stringify(kind === 'question' ? approval.questions : approval.arguments, null, 2)
  for (const line of what.split('\n')) out.line(`  ${line}`)
  out.line({ text: `  hash ${hash}`, style: 'dim' })
}
