import { randomUUID } from 'node:crypto'
import { type Client, withClient, withQuery } from './client.ts'
import { callArguments } from './call-arguments.ts'
import { callProgress } from './call-progress.ts'
import { type CommandInput, defineCommand } from './command.ts'
import { connectionOptions, jsonOption, scopeOption } from './connection.ts'
import type { Output } from './output.ts'

interface Answer {
  readonly isError: boolean
  readonly content: readonly { readonly type: string; readonly text?: string }[]
  readonly error?: { message: string; info?: { code: string }; effect: string; retryable: boolean }
  readonly replayed?: true
}

interface DryRun {
  readonly decision: 'allow' | 'deny' | 'ask'
  readonly reason?: string
  readonly violations?: readonly string[]
  readonly error?: { message: string }
}

const options = {
  arg: {
    type: 'string',
    multiple: true,
    value: 'NAME=TEXT',
    description: 'One argument, instead of JSON; NAME:=JSON for what is no text. Repeatable.'
  },
  ...scopeOption,
  session: { type: 'string', value: 'SESSION', description: 'The session; the default one of the scope if absent.' },
  'call-id': {
    type: 'string',
    value: 'ID',
    description: 'Asked again under the same id, the call runs once and its answer comes again.'
  },
  'dry-run': { type: 'boolean', description: 'Only say what policies and validation say; nothing runs.' },
  async: { type: 'boolean', description: 'Do not wait: print where the call is to be asked for.' },
  'no-progress': { type: 'boolean', description: 'Do not show what a running tool prints.' },
  ...jsonOption,
  ...connectionOptions
} as const

type Input = CommandInput<typeof options>

export const invoke = defineCommand({
  name: 'invoke',
  usage: 'NAME [JSON]',
  summary: 'run a tool',
  details: [
    'JSON holds the arguments; - reads them from standard input. What the tool prints while it runs goes to standard error, what it answers to standard output: its text, or with --json the whole answer. The exit code is 0 if it succeeded and 1 if it failed.',
    'Ctrl-C cancels the call and waits for its end; a second one does not wait.'
  ],
  options,
  examples: [
    [`invoke bash '{"command":"ls","description":"List files"}'`, 'arguments as JSON'],
    ['invoke read --arg file_path=/etc/hostname --arg limit:=5', 'arguments one by one'],
    ['invoke write - --session s-42 < arguments.json', 'arguments of any size']
  ],
  run: (input) =>
    withClient(input.values, input.env, async (client) => {
      const { values, positionals, out, err } = input
      const [name = '', json] = positionals
      const argumentsText = callArguments(json, values.arg)
      const callId = values['call-id'] ?? randomUUID()
      const members = {
        name,
        scope: values.scope,
        session: values.session,
        callId,
        // Nobody could ask for it again under an id that nobody was told.
        ...(values['call-id'] === undefined && !values.async && { onDisconnect: 'abort' })
      }
      const body = `${JSON.stringify(members).slice(0, -1)},"arguments":${argumentsText}}`
      if (values['dry-run']) return dryRun(client, body, input)
      if (values.async) return start(client, body, input)
      const place = { scope: values.scope, session: values.session, callId }
      const progress = await callProgress(client, place, {
        onChunk: (chunk) => {
          if (!values['no-progress']) err.text(chunk, 'dim')
        },
        onCancelling: () => err.line('toolwright: cancelling the call; Ctrl-C again does not wait for its end')
      })
      try {
        const { value, text } = await client.ask<Answer>('/invoke', { body, signal: progress.gaveUp })
        if (values.json) out.jsonText(text)
        else showAnswer(value, out, err)
        return progress.isCancelled ? 130 : value.isError ? 1 : 0
      } catch (error) {
        if (!progress.gaveUp.aborted) throw error
        err.line('toolwright: the connection of the call was dropped')
        return 130
      } finally {
        progress.end()
      }
    })
})

async function dryRun(client: Client, body: string, { values, out }: Input): Promise<number> {
  const { value, text } = await client.ask<DryRun>(withQuery('/invoke', { dryRun: 'true' }), { body })
  const isRefused = value.decision === 'deny' || value.violations !== undefined || value.error !== undefined
  if (values.json) out.jsonText(text)
  else {
    const decision = value.violations === undefined ? value.decision : 'invalid arguments'
    out.line({ text: decision, style: isRefused ? 'red' : 'green' }, value.reason ? `: ${value.reason}` : '')
    for (const violation of value.violations ?? []) out.line(violation)
    if (value.error !== undefined) out.line(value.error.message)
  }
  return isRefused ? 1 : 0
}

async function start(client: Client, body: string, { values, out }: Input): Promise<void> {
  const { value, text, headers } = await client.ask<{ state: string }>('/invoke', {
    body,
    headers: { prefer: 'respond-async' }
  })
  if (values.json) out.jsonText(text)
  else out.line(`${value.state}: ${headers.get('location')}`)
}

function showAnswer({ isError, content, error, replayed }: Answer, out: Output, err: Output): void {
  if (replayed) err.line({ text: 'toolwright: the answer of an earlier call of this id', style: 'yellow' })
  for (const block of content) {
    // What went wrong is what a failure's content says again.
    if (isError && block.text === `Error: ${error?.message}`) continue
    if (block.text === undefined) out.line(`[${block.type}]`)
    else if (block.text !== '') out.text(block.text.endsWith('\n') ? block.text : `${block.text}\n`)
  }
  if (!isError || error === undefined) return
  const effect = error.effect === 'none' ? 'nothing was done' : `its effect is ${error.effect}`
  err.line({ text: `toolwright: ${error.info?.code ?? 'the tool failed'}: ${error.message} (${effect})`, style: 'red' })
}
