import type { ErrorCode } from '../../server/errors.ts'

/** What a request that places calls in a session may be refused with (api.md §2). */
export const placedCallErrors: readonly ErrorCode[] = [
  'UNKNOWN_SCOPE',
  'UNKNOWN_SESSION',
  'CALL_CONFLICT',
  'STEP_CLOSED',
  'TURN_CLOSED',
  'TURN_BUSY',
  'RATE_LIMITED',
  'OVERLOADED'
]
