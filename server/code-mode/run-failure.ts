import type { FailureKind } from '../code-runtime/code-runtime.ts'
import { CodedError } from '../errors.ts'

/** A program failed: the kind, the diagnostic, and what it had printed until then (code-mode.md §2.5). */
export class CodeRunFailedError extends CodedError {
  constructor(kind: FailureKind, diagnostic: string, logs: readonly string[]) {
    const output = logs.length === 0 ? '' : `\nCaptured output:\n${logs.join('\n')}`
    super('CODE_RUN_FAILED', `code run failed (${kind}): ${diagnostic}${output}`)
  }
}
