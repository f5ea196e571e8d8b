import { WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js'
import type { JSONRPCMessage, RequestId } from '@modelcontextprotocol/sdk/types.js'
import { isRecord } from '../../json/plain.ts'
import { rpcCodes } from './protocol-error.ts'

type Transport = WebStandardStreamableHTTPServerTransport

/** The SDK's transport, held to two rules of the protocol that it leaves to its clients. */
export class SessionTransport extends WebStandardStreamableHTTPServerTransport {
  readonly #underway = new Set<RequestId>()

  /**
   * A request under the id of one that is not answered yet is refused with 400: the SDK would give the first answer to the second
   * request, and leave the stream of the first one open for ever.
   */
  override async handleRequest(...[request, options]: Parameters<Transport['handleRequest']>): Promise<Response> {
    const body = options?.parsedBody
    const id = isRecord(body) && typeof body['method'] === 'string' ? body['id'] : undefined
    if (typeof id !== 'string' && typeof id !== 'number') return super.handleRequest(request, options)
    if (this.#underway.has(id)) return refusal('A request with this id is not answered yet')
    this.#underway.add(id)
    let isTaken = false
    try {
      const answer = await super.handleRequest(request, { ...options, parsedBody: withoutTask(body) })
      isTaken = answer.ok
      return answer
    } finally {
      if (!isTaken) this.#underway.delete(id)
    }
  }

  override async send(message: JSONRPCMessage, options?: Parameters<Transport['send']>[1]): Promise<void> {
    try {
      await super.send(message, options)
    } finally {
      if (('result' in message || 'error' in message) && message.id !== undefined) this.#underway.delete(message.id)
    }
  }
}

/** Who has no tasks answers as if none were asked for (2025-11-25, Tasks); the SDK makes an error of it. */
function withoutTask(body: unknown): unknown {
  if (!isRecord(body) || !isRecord(body['params']) || !Object.hasOwn(body['params'], 'task')) return body
  const { task: _task, ...params } = body['params']
  return { ...body, params }
}

const refusal = (message: string): Response =>
  Response.json({ jsonrpc: '2.0', error: { code: rpcCodes.invalidRequest, message }, id: null }, { status: 400 })
