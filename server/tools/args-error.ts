import { CodedError } from '../errors.ts'

/** Arguments do not match what a tool declares; `violations` tell where, with quoted paths (core.md §5.2, §3.13). */
export class ToolArgsError extends CodedError {
  readonly violations: readonly string[]

  constructor(violations: readonly string[]) {
    super('INVALID_ARGS', `invalid arguments: ${violations.join('; ')}`)
    this.violations = violations
  }
}
