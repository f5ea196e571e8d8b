import type { JsonValue } from '../json/lossless.ts'

// Two vocabularies that share no key (core.md §23): what is in the log, and what only those who listen now hear of. Modules add
// their own by declaration merging.

interface Place {
  turn: number
  step: number
}

/** Stored events by type, with their data. */
export interface DurableEvents {
  'turn/start': { turn: number }
  'turn/end': { turn: number; reason: { kind: string; cause?: string; code?: string } }
  'step/start': Place
  'step/end': Place
  'user/message': { [key: string]: JsonValue }
  /** `arguments` is the raw string as the model wrote it. */
  'tool/call': Place & { callId: string; name: string; arguments: string }
  'tool/result': Place & {
    message: {
      id: string
      role: 'user'
      source: { kind: 'tool'; callId: string }
      content: { type: 'tool-result'; toolCallId: string; content: JsonValue; isError: boolean }[]
    }
    error?: { name: string; code: string }
    meta?: JsonValue
  }
  'tool/code-dispatch-start': Dispatch
  'tool/code-dispatch': Dispatch & { isError: boolean; content: JsonValue }
  'approval/asked': { id: string; kind?: 'question'; toolName: string; callId?: string; reason?: string }
  'approval/decided': { id: string; outcome: string; by?: string; arguments?: JsonValue }
  'approval/policy': { policy: 'ask' | 'never'; source?: string }
  'sandbox/mode': { mode: 'read-only' | 'workspace-write' | 'danger-full-access'; source?: string }
  'permission/preset': { preset: string }
  /** The whole plan; the last one counts, until the next turn starts (backends.md §7). */
  'todo/write': { todos: { content: string; status: 'pending' | 'in_progress' | 'completed' }[] }
}

interface Dispatch {
  rootCallId: string
  parentCallId: string
  subCallId: string
  name: string
  arguments: JsonValue
}

/**
 * Whom a live event concerns. Without a session it goes to the scope's subscribers, without a scope to everyone: so it must
 * then say nothing of any tenant.
 */
export interface Concerns {
  session?: string
  scope?: string
}

/** Live events by type; each is lossless JSON. They have no `seq` and a reconnect does not bring them back. */
export interface LiveEvents {
  /** A call has run, or was refused, and its result is stored (api.md §5); nothing tells of one that was never started (core.md §15.3). */
  'tools/result': Concerns & {
    callId: string
    name: string
    isError: boolean
    error?: { message: string; info?: { name: string; code: string }; effect: string; retryable: boolean }
  }
  /** What can be called has changed somewhere. */
  'tools/change': Concerns
  /** Partial output of a running body. */
  'tool/progress': Concerns & { callId: string; name: string; chunk: JsonValue }
  /** An MCP server is connected or not, or brings other tools (docs/mcp.md). */
  'mcp/changed': Concerns & { server: string; state: string; tools: number; quarantined: number }
  /** An approval waits for a person (api.md §7). */
  'approval/pending': Concerns & {
    id: string
    kind: 'tool' | 'question'
    callId: string
    toolName: string
    reason?: string
  }
}

export type LiveEventType = keyof LiveEvents
