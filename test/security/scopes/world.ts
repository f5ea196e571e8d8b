import type { HomeApp } from '../../helpers/home-app.ts'
import { openSession } from '../../helpers/mcp-client.ts'
import { TestProvider } from '../../helpers/provider-client.ts'
import { until } from '../../helpers/until.ts'

/** Kinds of things that have an id. */
export const kinds = [
  ...(['scope', 'session', 'call', 'approval', 'job', 'terminal', 'token', 'tool', 'mask'] as const),
  ...(['mcpServer', 'mcpSession', 'provider', 'dispatch', 'approvalCursor'] as const)
] as const

export type Kind = (typeof kinds)[number]
export type Things = Readonly<Record<Kind, string>>

/** Ids of the same form as those of a scope, which nothing has. They sort beside those of `aaaa`, as they may be places in a list. */
export const ghosts: Things = {
  scope: 'aaab',
  session: 'aaab-session',
  call: 'aaab-call',
  approval: '00000000-0000-4000-8000-000000000000',
  job: 'bash-9',
  terminal: 'pty-9',
  token: '0123456789abcdef',
  tool: 'aaab_tool',
  mask: '0123456789abcdef',
  mcpServer: 'ghosts',
  mcpSession: 'mcp-0000000000000000',
  provider: 'aaab-provider',
  dispatch: '00000000-0000-4000-8000-000000000000',
  approvalCursor: '1.00000000-0000-4000-8000-000000000000'
}

/** The name of the one MCP server that there is. */
export const mcpServer = 'shared'

/** Makes one of everything in a scope of this id: each text that tells of it has the id of the scope in it, or is among the values. */
export async function furnish(app: HomeApp, scope: string): Promise<Things> {
  const must = async (method: string, path: string, json?: unknown, headers?: Record<string, string>): Promise<any> => {
    const answer = await app.ask(method, path, json, headers === undefined ? {} : { headers })
    if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`)
    return answer.body
  }
  const session = `${scope}-session`
  const invoke = async (name: string, args: object, more: object = {}): Promise<any> => {
    const answer = await must('POST', '/invoke', { scope, session, name, arguments: args, ...more })
    if (answer.isError) throw new Error(JSON.stringify(answer))
    return answer.value
  }
  const call = `${scope}-call`
  await must('PUT', `/scopes/${scope}`, { parent: 'global', presentAs: 'native' })
  await must('PUT', `/scopes/${scope}.below`, { parent: scope })
  const mask = await must('POST', `/scopes/${scope}/restrictions`, { deny: ['beta'] })
  await must('PUT', `/scopes/${scope}/limits`, { concurrency: 7 })
  await invoke('alpha', {}, { callId: call })
  await must(
    'POST',
    '/invoke',
    { scope, session, name: 'asked', callId: `${scope}-asked` },
    { prefer: 'respond-async' }
  )
  const token = await must('POST', '/tokens', { role: 'observer', scope, label: `${scope}-label` })
  const tool = `${scope}_tool`
  await must('POST', '/tools', {
    ...{ scope, name: tool, description: tool, parameters: { type: 'object' } },
    executor: { kind: 'http', url: `http://${scope}.invalid/` }
  })
  const { jobId } = await invoke('bash', {
    command: `: ${scope}; sleep 600`,
    description: scope,
    run_in_background: true
  })
  const terminal = await invoke('terminal_open', { type: 'shell', name: scope })
  const place = placeOf(app)
  const provider = await TestProvider.open(place, { id: `${scope}-provider` })
  await provider.provide([`${scope}_provided`], scope)
  await must(
    'POST',
    '/invoke',
    { scope, session, name: `${scope}_provided`, callId: `${scope}-provided` },
    { prefer: 'respond-async' }
  )
  const { dispatchId } = await provider.call()
  const pending = async (): Promise<any> =>
    (await must('GET', '/approvals')).approvals.find((approval: { scope: string }) => approval.scope === scope)
  await until(async () => (await pending()) !== undefined)
  const approval = await pending()
  return {
    ...{
      scope,
      session,
      call,
      tool,
      mcpServer,
      job: jobId,
      terminal: terminal.sessionId,
      token: token.id,
      mask: mask.id
    },
    ...{ approval: approval.id, provider: provider.id, dispatch: dispatchId },
    approvalCursor: `${approval.createdAt}.${approval.id}`,
    mcpSession: await openSession(place, { scope })
  }
}

/** Where the server is, as the clients of other tests want it. */
export function placeOf(app: HomeApp): { port: number; admin: string } {
  return { port: (app.app.server.address() as { port: number }).port, admin: app.admin }
}
