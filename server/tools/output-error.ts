import { CodedError } from '../errors.ts'

/** What a tool answered breaks its contract, though the tool did its work (core.md §2.8, §30). */
export class ToolOutputError extends CodedError {
  constructor(message: string, options?: ErrorOptions) {
    super('INVALID_TOOL_OUTPUT', message, options)
  }
}
