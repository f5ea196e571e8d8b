import { RequestError } from '../../errors.ts'
import { type EventFields, storedEvent } from '../../events/stored-event.ts'
import { ConflictError, type ConflictTable, type StoredEvent, StoreUnavailableError } from '../event-log.ts'
import type { WireEvent, WireResult } from './protocol.ts'

/** Why an append was refused, as its caller is told. */
export function refusal(result: Extract<WireResult, { ok: false }> | undefined): Error {
  const { reason = 'unavailable', message = 'no answer', table = '' } = result ?? {}
  if (reason === 'conflict') return new ConflictError(table as ConflictTable, message)
  if (reason === 'unknown-session') return new RequestError('UNKNOWN_SESSION', undefined, { details: message })
  if (reason === 'damaged') return new RequestError('LOG_CORRUPT', message)
  return reason === 'invalid' ? new TypeError(message) : new StoreUnavailableError(message)
}

/** An event that the reader thread sent. */
export function fromWire({ text, surface_op: surfaceOp, sources, ...rest }: WireEvent): StoredEvent {
  const fields: EventFields = {
    ...rest,
    ...(surfaceOp === null ? {} : { surfaceOp }),
    ...(sources === null ? {} : { sourceEventSeqs: Object.freeze(JSON.parse(sources) as number[]) })
  }
  return storedEvent(fields, text)
}
