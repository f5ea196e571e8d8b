import type { InFlight } from './execution.ts'
import { type ToolResult, disown, fail, failure, failureFrom, sealedCopy } from './result.ts'

/** Materialise, let the tool have its last word on the content, materialise (core.md §14). Never throws. */
export function finalize(call: InFlight, candidate: ToolResult): ToolResult {
  const result = materialized(call, candidate)
  if (call.finalizer === undefined) return result
  let content: unknown
  try {
    content = call.finalizer(call.exec, result)
  } catch (thrown) {
    return fail(call, 'finalize', failureFrom(thrown))
  }
  if (content === undefined) return result
  disown(content)
  return materialized(call, { ...result, content } as ToolResult, 'finalize')
}

function materialized(call: InFlight, result: ToolResult, stage: 'result' | 'finalize' = 'result'): ToolResult {
  if (result === call.sealed) return result
  try {
    return (call.sealed = sealedCopy(result))
  } catch {
    return fail(call, stage, failure(`the result of "${call.exec.name}" is not lossless JSON`))
  }
}
