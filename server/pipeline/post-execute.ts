import type { ContentBlock, UserMessage } from '../tools/definition.ts'
import { unlessCancelled } from './cancellation.ts'
import { accept } from './decisions.ts'
import type { InFlight } from './execution.ts'
import { runChain } from './chain.ts'
import type { Hooks } from './hooks.ts'
import type { Catalogue } from './materialize.ts'
import { project } from './output.ts'
import { type ToolResult, fail, failureFrom, isObject, unknownTool, withContexts } from './result.ts'

/** The post-execute stage (core.md §13). Never rejects: what a hook throws, or answers amiss, becomes the call's failure. */
export async function postExecute(
  call: InFlight,
  result: ToolResult,
  catalogue: Catalogue,
  hooks: readonly Hooks['postExecute'][]
): Promise<ToolResult> {
  if (hooks.length === 0) return unlessCancelled(call, result)
  try {
    const { exec } = call
    const decision: unknown = await runChain({
      listeners: hooks,
      invoke: (hook, next) => hook(exec, result, next),
      last: accept
    })
    return unlessCancelled(call, await apply(call, result, decision, catalogue))
  } catch (thrown) {
    return fail(call, 'post-execute', failureFrom(thrown))
  }
}

function apply(
  call: InFlight,
  result: ToolResult,
  decision: unknown,
  catalogue: Catalogue
): ToolResult | Promise<ToolResult> {
  if (!isObject(decision)) throw new TypeError('a postExecute hook returned no decision')
  const { kind } = decision
  const contexts = listOf<UserMessage>(decision['additionalContexts'] ?? [], 'additionalContexts')
  const added = contexts.length === 0 ? undefined : contexts
  if (kind === 'block') return blocked(call, listOf<ContentBlock>(decision['feedback'], 'feedback'), added)
  if (kind !== 'accept') throw new TypeError('a postExecute hook returned an invalid decision')

  const hasContent = Object.hasOwn(decision, 'content')
  if (Object.hasOwn(decision, 'value')) {
    if (hasContent) throw new TypeError('a decision replaces the content or the value, not both')
    return replaced(call, result, decision['value'], added, catalogue)
  }
  const kept = hasContent ? { ...result, content: listOf<ContentBlock>(decision['content'], 'content') } : result
  return withContexts(kept, undefined, added)
}

/** The tool makes content and meta anew from the value put in (core.md §13.2). */
async function replaced(
  call: InFlight,
  result: ToolResult,
  value: unknown,
  added: UserMessage[] | undefined,
  catalogue: Catalogue
): Promise<ToolResult> {
  const { name, agent } = call.exec
  if (result.isError) throw new TypeError('value replacement is only possible for a successful call')
  const tool = catalogue.lookup(name, agent?.scope)
  if (tool === undefined) return fail(call, 'name', unknownTool(name))
  const made = await project(call, tool, value)
  return made.isError ? made : withContexts(made, result.additionalContexts, added)
}

/** The feedback stands as it is; of the result nothing is left, not even its code (core.md §13.3). */
function blocked(call: InFlight, feedback: ContentBlock[], added: UserMessage[] | undefined): ToolResult {
  call.stoppedAt ??= 'denial'
  const lines = feedback.map(({ type, ...rest }) =>
    type === 'text' && typeof rest['text'] === 'string' ? rest['text'] : `[${type} content]`
  )
  const message = lines.join('\n') || `the result of "${call.exec.name}" was blocked`
  return withContexts({ isError: true, error: { message }, content: feedback }, undefined, added)
}

function listOf<T>(value: unknown, name: string): T[] {
  if (!Array.isArray(value)) throw new TypeError(`${name} of a postExecute decision must be an array`)
  return value
}
