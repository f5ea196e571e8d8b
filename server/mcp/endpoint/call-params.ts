import type { RequestHandlerExtra } from '@modelcontextprotocol/sdk/shared/protocol.js'
import type { JSONRPCRequest, ServerNotification, ServerRequest } from '@modelcontextprotocol/sdk/types.js'
import { type SentArguments, sentArguments } from '../../invocations/sent-arguments.ts'
import type { JsonValue } from '../../json/lossless.ts'
import { isRecord } from '../../json/plain.ts'
import { ProtocolError, rpcCodes } from './protocol-error.ts'

export type CallExtra = RequestHandlerExtra<ServerRequest, ServerNotification>

/**
 * What the transport hands on of a request beside its message, which has room for a token only, here the body as it was sent. Who sent
 * it was checked before.
 */
export const withBodyText = (text: string) => ({ token: text, clientId: '', scopes: [] })

/** The call that a request of `tools/call` asks for. Throws a `ProtocolError` for one that is none. */
export function callRequest(
  { params = {} }: JSONRPCRequest,
  { authInfo }: CallExtra
): { name: string; arguments?: JsonValue; sent: SentArguments } {
  const { name, arguments: args } = params
  if (typeof name !== 'string') throw new ProtocolError(rpcCodes.invalidParams, 'params.name must be a string')
  if (args !== undefined && !isRecord(args)) {
    throw new ProtocolError(rpcCodes.invalidParams, 'params.arguments must be an object')
  }
  return {
    name,
    ...(args !== undefined && { arguments: args as JsonValue }),
    sent: sentArguments(authInfo?.token ?? '', ['params', 'arguments'])
  }
}

/** The token under which a client wants to hear of progress. */
export function progressTokenOf({ params }: JSONRPCRequest): string | number | undefined {
  const token = params?._meta?.progressToken
  return typeof token === 'string' || typeof token === 'number' ? token : undefined
}

/** The trace that a request belongs to: the members of its `_meta` that have the names of the headers of HTTP. */
export function traceMetaOf({ params }: JSONRPCRequest): { traceparent?: string; tracestate?: string } {
  const { traceparent, tracestate } = params?._meta ?? {}
  return {
    ...(typeof traceparent === 'string' && { traceparent }),
    ...(typeof tracestate === 'string' && { tracestate })
  }
}
