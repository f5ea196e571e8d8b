import type { JSONRPCMessage } from '@modelcontextprotocol/sdk/types.js'
import { isJsonObject, type JsonValue } from '../../json/lossless.ts'

/** Codes of answers that we make in place of a message that is not taken. Outside of what JSON-RPC and MCP use. */
const codes = {
  'too-large': -39_001,
  'too-deep': -39_002,
  ended: -39_003,
  malformed: -39_004,
  rounded: -39_005
} as const

export type Refusal = keyof typeof codes

/** What the client gets instead of an answer that cannot be taken, so that only its request fails, and at once. */
export const refusedMessage = (id: number, refusal: Refusal): JSONRPCMessage => ({
  jsonrpc: '2.0',
  id,
  error: { code: codes[refusal], message: refusal }
})

/** Which refusal an error code stands for. */
export const refusalOf = (code: number): Refusal | undefined =>
  (Object.keys(codes) as Refusal[]).find((refusal) => codes[refusal] === code)

/**
 * A message of a server as the SDK takes it. The SDK passes over an answer that has more members than it knows, or whose result is no
 * object: its request would wait for nothing.
 */
export function takenMessage(message: JsonValue): JSONRPCMessage {
  if (!isJsonObject(message) || Object.hasOwn(message, 'method') || typeof message['id'] !== 'number') {
    return message as unknown as JSONRPCMessage
  }
  const { id, result, error } = message
  if (isJsonObject(result)) {
    const { _meta: _unused, ...rest } = result
    return { jsonrpc: '2.0', id, result: rest }
  }
  if (!isJsonObject(error)) return refusedMessage(id, 'malformed')
  const { code, message: text } = error
  if (typeof code !== 'number' || !Number.isInteger(code) || typeof text !== 'string')
    return refusedMessage(id, 'malformed')
  return { jsonrpc: '2.0', id, error: { code, message: text } }
}
