import { type TSchema, Type } from '@sinclair/typebox'
import { type ErrorCode, errorTable } from '../../server/errors.ts'

/** What any request may be answered with, whatever the route. */
const always: readonly ErrorCode[] = [
  'BAD_REQUEST',
  'BAD_JSON',
  'TOKEN_IN_URL',
  'UNAUTHENTICATED',
  'HOST_NOT_ALLOWED',
  'ORIGIN_NOT_ALLOWED',
  'FORBIDDEN',
  'BODY_TOO_LARGE',
  'UNSUPPORTED_MEDIA_TYPE',
  'INTERNAL',
  'OVERLOADED',
  'SHUTTING_DOWN',
  'STORE_UNAVAILABLE'
]

/** The error answers of a route by status, from the one table of codes: those of every route, and the `codes` of its own. */
export function errorResponses(...codes: ErrorCode[]): Record<number, TSchema> {
  const byStatus = new Map<number, ErrorCode[]>()
  for (const code of new Set([...always, ...codes])) {
    const { status } = errorTable[code]
    byStatus.set(status, [...(byStatus.get(status) ?? []), code])
  }
  return Object.fromEntries([...byStatus].map(([status, group]) => [status, errorSchema(group)]))
}

function errorSchema(codes: ErrorCode[]): TSchema {
  return Type.Object(
    {
      error: Type.Object({
        code: Type.Unsafe<ErrorCode>({ type: 'string', enum: codes }),
        message: Type.String(),
        details: Type.Optional(Type.Unknown())
      }),
      requestId: Type.String()
    },
    { description: codes.map((code) => `\`${code}\`: ${errorTable[code].message}`).join(' ') }
  )
}
