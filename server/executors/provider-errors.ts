import { CodedError } from '../errors.ts'

/**
 * Why a provider did not run a call to its end: `PROVIDER_UNAVAILABLE` or `OVERLOADED`. `effect` is
 * there only where the call never reached a provider, so that it did nothing (api.md §2).
 */
export class ProviderError extends CodedError {
  readonly effect?: 'none'

  constructor(code: 'PROVIDER_UNAVAILABLE' | 'OVERLOADED', message: string, { ran }: { ran: 'no' | 'maybe' }) {
    super(code, message)
    if (ran === 'no') this.effect = 'none'
  }
}
