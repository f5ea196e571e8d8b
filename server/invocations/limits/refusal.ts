import { RequestError } from '../../errors.ts'
import type { Rate } from './limit-set.ts'
import type { Meter } from './meter.ts'
import type { Asker } from './meters.ts'

/** What a limit is called, in refusals, in `GET /limits` and in the metrics: a fixed set of names. */
export type LimitName =
  | 'calls.maxConcurrent'
  | 'calls.maxQueued'
  | 'calls.maxConcurrentPerScope'
  | `${'scope' | 'tool' | 'token'}.${'concurrency' | 'queue' | 'rate'}`

/** The name of a limit of a meter. */
export function limitName({ of }: Meter, member: 'concurrency' | 'queue' | 'rate'): LimitName {
  if (of.kind !== 'own') return `${of.kind}.${member}`
  return member === 'concurrency' ? 'calls.maxConcurrentPerScope' : `scope.${member}`
}

/** Whose limit it is, as far as the asker may know: scopes above the reach of its token do not exist for it. */
export function ownerOf({ of }: Meter, asker: Asker): { scope?: string; tool?: string } {
  const { scope, tool } = of
  return {
    ...(scope === undefined || isAbove(scope, asker) ? {} : { scope }),
    ...(tool === undefined ? {} : { tool })
  }
}

export function isAbove(scope: string, { scope: { chain }, reach }: Asker): boolean {
  const reached = chain.findIndex(({ id }) => id === reach)
  return chain.findIndex(({ id }) => id === scope) < reached
}

export interface Refusal {
  readonly limit: LimitName
  readonly error: RequestError
}

/** The server's own limit: 503. */
export const overloaded = (limit: LimitName, value: number): Refusal => ({
  limit,
  error: new RequestError('OVERLOADED', undefined, { details: { limit, value } })
})

/** A limit of a scope, tool or token: 429. */
export function limited(meter: Meter, member: 'concurrency' | 'queue', asker: Asker): Refusal {
  const limit = limitName(meter, member)
  const owner = limit === 'calls.maxConcurrentPerScope' ? {} : ownerOf(meter, asker)
  const details = { limit, value: meter.limits[member], ...owner }
  return { limit, error: new RequestError('RATE_LIMITED', undefined, { details }) }
}

/** A rate is used up: 429, with the time after which there is room for one more. */
export function rateLimited(meter: Meter, { rate, waitMs }: { rate: Rate; waitMs: number }, asker: Asker): Refusal {
  const limit = limitName(meter, 'rate')
  const retryAfterMs = Math.ceil(waitMs)
  const details = { limit, value: rate.requests, perMs: rate.perMs, retryAfterMs, ...ownerOf(meter, asker) }
  const headers = { 'retry-after': String(Math.max(1, Math.ceil(retryAfterMs / 1000))) }
  return { limit, error: new RequestError('RATE_LIMITED', undefined, { details, headers }) }
}
