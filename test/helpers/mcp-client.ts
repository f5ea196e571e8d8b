import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import { LoggingMessageNotificationSchema, ToolListChangedNotificationSchema } from '@modelcontextprotocol/sdk/types.js'
import { onTestFinished } from 'vitest'

interface Served {
  port: number
  admin: string
}

/** The official client, connected to the endpoint of one scope. */
export interface McpClient {
  client: Client
  transport: StreamableHTTPClientTransport
  session: string
  /** What it was told without having asked: methods, with the data of log messages. */
  told: string[]
}

export const mcpUrl = ({ port }: Served, scope = 'global'): string => `http://127.0.0.1:${port}/scopes/${scope}/mcp`

export async function connectMcp(
  served: Served,
  { scope = 'global', token = served.admin }: { scope?: string; token?: string } = {}
): Promise<McpClient> {
  const transport = new StreamableHTTPClientTransport(new URL(mcpUrl(served, scope)), {
    requestInit: { headers: { authorization: `Bearer ${token}` } }
  })
  const client = new Client({ name: 'test', version: '1' })
  const told = listen(client)
  // The types of the SDK do not know `exactOptionalPropertyTypes`.
  await client.connect(transport as Transport)
  onTestFinished(() => client.close())
  return { client, transport, session: transport.sessionId ?? '', told }
}

/** What a client is told without having asked. */
export function listen(client: Client): string[] {
  const told: string[] = []
  client.setNotificationHandler(ToolListChangedNotificationSchema, () => void told.push('list_changed'))
  client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => void told.push(String(params.data)))
  return told
}

/** One message as the wire has it; a string is sent as it is. */
export function postMcp(
  served: Served,
  message: unknown,
  { scope, token = served.admin, session, headers = {}, signal }: RawOptions = {}
): Promise<Response> {
  return fetch(mcpUrl(served, scope), {
    method: 'POST',
    headers: {
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      ...(session !== undefined && { 'mcp-session-id': session, 'mcp-protocol-version': '2025-11-25' }),
      ...headers
    },
    body: typeof message === 'string' ? message : JSON.stringify(message),
    ...(signal && { signal })
  })
}

interface RawOptions {
  scope?: string
  token?: string
  session?: string
  headers?: Record<string, string>
  signal?: AbortSignal
}

export const initialize = {
  jsonrpc: '2.0',
  id: 0,
  method: 'initialize',
  params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'raw', version: '1' } }
}

/** A session without the official client, which keeps a stream open and so counts as in use. */
export async function openSession(served: Served, options: RawOptions = {}): Promise<string> {
  const answer = await postMcp(served, initialize, options)
  await answer.text()
  if (answer.status !== 200) throw new Error(String(answer.status))
  return answer.headers.get('mcp-session-id') ?? ''
}

export const toolCall = (id: number, name: string, args: unknown = {}) => ({
  jsonrpc: '2.0',
  id,
  method: 'tools/call',
  params: { name, arguments: args }
})

/** The JSON-RPC messages of an answer in Server-Sent Events, with their ids. */
export const messagesOf = (text: string): { id: string; message: any }[] =>
  text.split('\n\n').flatMap((event) => {
    const id = /^id: (.*)$/m.exec(event)?.[1] ?? ''
    const data = /^data: (.+)$/m.exec(event)?.[1]
    return data === undefined ? [] : [{ id, message: JSON.parse(data) }]
  })

/** The last message of an answer. */
export const lastMessage = async (answer: Promise<Response>): Promise<any> =>
  messagesOf(await (await answer).text()).at(-1)?.message
