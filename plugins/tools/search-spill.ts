import { text } from '../../server/authoring/content.ts'
import type { ToolScope } from '../../server/authoring/tool-scope.ts'
import type { SpillStore } from '../../server/backends/spill/spill.ts'
import type { JsonValue } from '../../server/json/lossless.ts'
import type { PostDecision } from '../../server/pipeline/decisions.ts'
import type { Execution } from '../../server/pipeline/execution.ts'

/** The calls whose lists are longer than what is shown of them; their bodies enter them here. */
export type CappedCalls = WeakSet<Execution>

export interface WholeLists<Value> {
  capped: CappedCalls
  spill: SpillStore
  /** The file's name in the store. */
  fileName: string
  /** The whole list, as it is saved. */
  whole: (value: Value) => string
  /** What is shown, with a note on where the whole list is. */
  render: (value: Value, note: string) => string
}

/**
 * Saves what does not fit into a result and says where it is (backends.md §6.8). Stands down when somebody else has replaced or blocked the
 * result, and for calls of programs, which get the value. Nothing ever becomes an error by it.
 */
export function saveWholeLists<Value>(tools: ToolScope, lists: WholeLists<Value>): void {
  const shown = async (exec: Execution, value: JsonValue & Value, decision: PostDecision): Promise<PostDecision> => {
    if (decision.kind !== 'accept' || Object.hasOwn(decision, 'value') || Object.hasOwn(decision, 'content'))
      return decision
    return { ...decision, content: text(lists.render(value, await noteOn(exec, lists, value))) }
  }
  tools.addHook('postExecute', (exec, result, next) => {
    if (exec.parent !== undefined || result.isError || !lists.capped.has(exec)) return next()
    // It went through the output schema of the definition that entered the call.
    const value = result.value as JsonValue & Value
    return next().then((decision) => shown(exec, value, decision))
  })
}

async function noteOn<Value>(
  { agent, name, callId }: Execution,
  { spill, fileName, whole }: WholeLists<Value>,
  value: Value
): Promise<string> {
  try {
    if (agent === undefined) return notSaved
    const { locator, retrievalHint } = await spill.save({
      owner: { sessionId: agent.id },
      source: { toolName: name, callId, label: 'result' },
      suggestedName: fileName,
      text: whole(value)
    })
    return `; all of them: ${locator} (${retrievalHint})`
  } catch {
    return notSaved
  }
}

const notSaved = '; the whole list could not be saved'
