import type { EventQuery } from './event-log.ts'

/** Data of one page when the query says nothing. */
export const pageBytes = 8 * 1024 * 1024

/** Throws `RangeError` for an `after` or a `limit` that is none. */
export function assertQuery({ after, limit }: EventQuery): void {
  if (!Number.isSafeInteger(after) || after < -1) throw new RangeError('after is a seq, a position, or -1')
  if (!Number.isSafeInteger(limit) || limit < 1 || limit > 500) throw new RangeError('limit is 1 to 500')
}
