import { deepFreeze } from '../json/deep-freeze.ts'
import { type JsonValue, snapshot } from '../json/lossless.ts'
import { validateValue } from '../schema/validate.ts'
import type { ContentBlock, ToolDefinition } from '../tools/definition.ts'
import type { InFlight } from './execution.ts'
import { type ToolResult, disown, fail, invalidOutput, isContent, messageOf } from './result.ts'

/**
 * Turns a value into a success by the tool's output contract, or into `INVALID_TOOL_OUTPUT` (core.md §12.5): a body's value, a
 * wrapper's, or one that a post-execute hook puts in its place.
 */
export async function project(call: InFlight, tool: ToolDefinition, raw: unknown): Promise<ToolResult> {
  try {
    const value = part('the value', () => snapshot(raw))
    deepFreeze(value)
    const violations = tool.validateOutput
      ? await tool.validateOutput(value)
      : validateValue(tool.output.schema, value, 'value')
    if (violations.length > 0) throw new Error(`the tool's output is invalid: ${violations.join('; ')}`)

    const args = call.arguments as JsonValue
    const content = part('render', () => {
      const blocks = projected(tool.output.render(args, value))
      if (!isContent(blocks)) throw new TypeError('not an array of content blocks')
      return blocks
    })
    // A nested call has no card of its own (core.md §20).
    const hasMeta = tool.output.presentationMeta !== undefined && call.exec.parent === undefined
    const meta = hasMeta
      ? { meta: part('presentationMeta', () => projected(tool.output.presentationMeta?.(args, value))) }
      : undefined
    return sealed(call, value, content, meta)
  } catch (error) {
    return fail(call, 'output', invalidOutput(messageOf(error)))
  }
}

function sealed(call: InFlight, value: JsonValue, content: ContentBlock[], meta?: { meta: JsonValue }): ToolResult {
  deepFreeze(content)
  if (meta !== undefined) deepFreeze(meta.meta)
  const result: ToolResult = { isError: false, value, content, ...meta, ...(call.concludes && { concludesTurn: true }) }
  return (call.sealed = Object.freeze(result))
}

/** Says which part of the output was at fault. */
function part<T>(name: string, make: () => T): T {
  try {
    return make()
  } catch (error) {
    throw new Error(`the tool's output is invalid: snapshot of ${name} failed: ${messageOf(error)}`, { cause: error })
  }
}

function projected(made: unknown): JsonValue {
  disown(made)
  return snapshot(made)
}
