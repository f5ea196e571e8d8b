import type { ContentBlock } from '../tools/definition.ts'
import { runChain } from './chain.ts'
import type { DispatchLogEntry, Hooks } from './hooks.ts'
import type { Warn } from './materialize.ts'
import { isContent, messageOf } from './result.ts'

/**
 * The content to log for a program's call (code-mode.md §13.3). Never rejects: when a hook throws, or answers with something else
 * than content, the original is logged.
 */
export async function dispatchLogContent(
  entry: DispatchLogEntry,
  hooks: readonly Hooks['dispatchLog'][],
  warn: Warn
): Promise<readonly ContentBlock[]> {
  if (hooks.length === 0) return entry.content
  try {
    const content: unknown = await runChain({
      listeners: hooks,
      invoke: (hook, next) => hook(entry, next),
      last: () => entry.content
    })
    if (!isContent(content)) throw new TypeError('a dispatchLog hook returned no content')
    return content
  } catch (error) {
    warn('a dispatchLog hook failed', { tool: entry.name, callId: entry.subCallId, error: messageOf(error) })
    return entry.content
  }
}
