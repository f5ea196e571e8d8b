import { rmSync, writeFileSync } from 'node:fs'
import { UsageError } from '../command-line.ts'
import { type Client, withClient } from './client.ts'
import { type CommandInput, defineCommand } from './command.ts'
import { connectionOptions, jsonOption } from './connection.ts'
import { durationMs } from './duration.ts'
import type { Cell, Output } from './output.ts'

interface TokenRow {
  readonly id: string
  readonly label: string
  readonly role: string
  readonly scope: string
  readonly createdAt: number
  readonly expiresAt?: number
  readonly lastUsedAt?: number
  readonly previousUntil?: number
}

const options = {
  role: { type: 'string', value: 'ROLE', description: 'create: agent, observer, operator, provider or admin.' },
  scope: { type: 'string', value: 'SCOPE', description: 'create: what it reaches; an agent must have one.' },
  label: { type: 'string', value: 'TEXT', description: 'create: for people to tell tokens apart.' },
  ttl: { type: 'string', value: 'TIME', description: 'create, rotate: it expires after 90s, 15m, 12h or 30d.' },
  overlap: {
    type: 'string',
    value: 'TIME',
    description: 'rotate: how long the old secret stays good; not at all if absent.'
  },
  output: {
    type: 'string',
    value: 'FILE',
    description: 'create, rotate: a new file for the token, readable for its owner alone.'
  },
  ...jsonOption,
  ...connectionOptions
} as const

type Input = CommandInput<typeof options>
type Action = (client: Client, id: string, input: Input) => Promise<void>

const actions: ReadonlyMap<string, { takesId: boolean; run: Action }> = new Map<
  string,
  { takesId: boolean; run: Action }
>([
  ['list', { takesId: false, run: list }],
  [
    'show',
    {
      takesId: true,
      run: async (client, id, { values, out }) => {
        const { value, text } = await client.ask<TokenRow>(pathOf(id))
        if (values.json) out.jsonText(text)
        else show(out, [value])
      }
    }
  ],
  [
    'create',
    {
      takesId: false,
      run: (client, _id, input) => {
        const { role, scope, label, ttl } = input.values
        if (role === undefined) throw new UsageError('token create needs --role')
        const ttlMs = ttl === undefined ? undefined : durationMs('ttl', ttl)
        return make(client, '/tokens', { role, scope, label, ttlMs }, input)
      }
    }
  ],
  [
    'rotate',
    {
      takesId: true,
      run: (client, id, input) => {
        const { overlap, ttl } = input.values
        const overlapMs = overlap === undefined ? undefined : durationMs('overlap', overlap)
        const ttlMs = ttl === undefined ? undefined : durationMs('ttl', ttl)
        return make(client, `${pathOf(id)}/rotate`, { overlapMs, ttlMs }, input)
      }
    }
  ],
  [
    'revoke',
    {
      takesId: true,
      run: async (client, id, { values, out }) => {
        await client.send(pathOf(id), { method: 'DELETE' })
        if (values.json) out.json({ id, revoked: true })
        else out.line(`token ${id} is revoked`)
      }
    }
  ]
])

export const token = defineCommand({
  name: 'token',
  usage: 'list|show|create|rotate|revoke [ID]',
  summary: 'make, list, rotate and revoke tokens',
  details: [
    'A new token is printed alone on standard output, once; what there is to say about it goes to standard error. A token that is rotated keeps its id, and the file admin-token of the server changes with it where it holds this one.'
  ],
  options,
  examples: [
    ['token list', 'all tokens, with their last use'],
    ['token create --role agent --scope agent-7 --ttl 30d --output agent-7.token', 'for an agent, into a file'],
    ['token rotate 5f0c3a9d1e2b4c6d --overlap 1h', 'a new secret; the old one is good for an hour more'],
    ['token revoke 5f0c3a9d1e2b4c6d', 'it is refused from now on, and its sockets are closed']
  ],
  run: (input) => {
    const [word = '', id] = input.positionals
    const action = actions.get(word)
    if (action === undefined)
      throw new UsageError(`token takes ${[...actions.keys()].join(', ')}, not ${JSON.stringify(word)}`)
    if (action.takesId !== (id !== undefined)) {
      throw new UsageError(`token ${word} takes ${action.takesId ? 'the ID of a token' : 'no ID'}`)
    }
    return withClient(input.values, input.env, (client) => action.run(client, id ?? '', input))
  }
})

const pathOf = (id: string): string => `/tokens/${encodeURIComponent(id)}`

async function make(client: Client, path: string, body: object, { values, out, err }: Input): Promise<void> {
  const { output } = values
  // Before the server is asked: a token that cannot be kept would be lost.
  if (output !== undefined) writeFileSync(output, '', { flag: 'wx', mode: 0o600 })
  const { value, text } = await client.ask<TokenRow & { token: string }>(path, { body }).catch((error: unknown) => {
    if (output !== undefined) rmSync(output, { force: true })
    throw error
  })
  const { token: secret, ...info } = value
  if (output !== undefined) writeFileSync(output, `${secret}\n`)
  if (values.json) return output === undefined ? out.jsonText(text) : out.json(info)
  const ends = info.expiresAt === undefined ? '' : `, until ${timeOf(info.expiresAt)}`
  err.line(`token ${info.id}: ${info.role} of ${info.scope}${ends}${output === undefined ? '' : `, in ${output}`}`)
  if (info.previousUntil !== undefined) err.line(`the secret before it is good until ${timeOf(info.previousUntil)}`)
  if (output === undefined) out.line(secret)
}

async function list(client: Client, _id: string, { values, out }: Input): Promise<void> {
  const rows: TokenRow[] = []
  for await (const row of client.list<TokenRow>('/tokens', 'tokens', { limit: '500' })) {
    if (values.json) out.json(row)
    else rows.push(row)
  }
  show(out, rows)
}

function show(out: Output, rows: readonly TokenRow[]): void {
  out.table(
    ['ID', 'ROLE', 'SCOPE', 'CREATED', 'LAST USED', 'EXPIRES', 'LABEL'],
    rows.map(({ id, role, scope, createdAt, lastUsedAt, expiresAt, label }): Cell[] => [
      { text: id, style: 'cyan' },
      role,
      scope,
      timeOf(createdAt),
      lastUsedAt === undefined ? 'never' : timeOf(lastUsedAt),
      expiresAt === undefined ? 'never' : timeOf(expiresAt),
      label
    ])
  )
}

const timeOf = (time: number): string => new Date(time).toISOString()
