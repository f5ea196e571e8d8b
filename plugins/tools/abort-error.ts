import { CodedError } from '../../server/errors.ts'

/** What a body throws that its caller's abort has stopped (core.md §30). */
export class AbortError extends CodedError {
  constructor() {
    super('ABORTED', 'tool call aborted')
  }
}
