import type { RequestError } from '../../errors.ts'

/** The codes of JSON-RPC and of MCP that this endpoint answers with. */
export const rpcCodes = {
  invalidRequest: -32_600,
  invalidParams: -32_602,
  methodNotFound: -32_601,
  internal: -32_603,
  refused: -32_000
} as const

/** A JSON-RPC error answer: the request itself is at fault, or the server could not take it. A tool's failure is a result. */
export class ProtocolError extends Error {
  override readonly name = 'ProtocolError'
  readonly code: number
  readonly data: unknown

  constructor(code: number, message: string, data?: unknown) {
    super(message)
    this.code = code
    this.data = data
  }
}

/** A fault of the wire's table as JSON-RPC tells it: the code of the table is in `data`. */
export function fromRequestError({ code, status, message, details, headers }: RequestError): ProtocolError {
  const rpcCode =
    status === 400 || status === 422 ? rpcCodes.invalidParams : status === 500 ? rpcCodes.internal : rpcCodes.refused
  const { location } = headers
  return new ProtocolError(rpcCode, message, {
    code,
    ...(details !== undefined && { details }),
    ...(location !== undefined && { location })
  })
}
