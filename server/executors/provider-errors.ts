import { CodedError } from '../errors.ts'

/**
 * Why a provider did not run a call to its end: `PROVIDER_UNAVAILABLE`, `OVERLOADED`, or `ABORTED` by the caller (core.md §30). `effect` is
 * there only where the call never reached a provider, so that it did nothing (api.md §2).
 */
export class ProviderError extends CodedError {
  readonly effect?: 'none'

  constructor(code: 'PROVIDER_UNAVAILABLE' | 'OVERLOADED', message: string, { ran }: { ran: 'no' | 'maybe' }) {
    super(code, message)
    if (ran === 'no') this.effect = 'none'
  }
}

/** The caller gave up, or the deadline passed (core.md §30). */
export class AbortError extends CodedError {
  readonly effect?: 'none'

  constructor({ ran }: { ran: 'no' | 'maybe' }) {
    super('ABORTED', 'tool call aborted')
    if (ran === 'no') this.effect = 'none'
  }
}
