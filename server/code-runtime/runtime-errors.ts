import { CodedError } from '../errors.ts'

/** A run was asked of a runtime that is disposed. */
export class RuntimeDisposedError extends Error {
  override readonly name = 'RuntimeDisposedError'

  constructor() {
    super('The code runtime is disposed.')
  }
}

/** The runtime runs and queues as many programs as it may, or too many of its worlds would not end (code-mode.md §11, §14.4). */
export class RuntimeOverloadedError extends CodedError {
  /** It says so before there is a world (api.md §2). */
  readonly effect = 'none'

  constructor(message: string) {
    super('OVERLOADED', message)
  }
}

/** The runtime cannot be set up here: no interpreter, or no world starts. */
export class RuntimeUnavailableError extends Error {
  override readonly name = 'RuntimeUnavailableError'
}
