import type { JsonValue } from '../json/lossless.ts'
import type { Agent } from '../scopes/scope.ts'
import type { ContentBlock, UserMessage } from '../tools/definition.ts'
import type { Execution } from './execution.ts'

/** What the pre-execute stage answers (core.md §10). */
export type PreDecision = { kind: 'allow' } | { kind: 'deny'; reason: string } | { kind: 'ask'; reason?: string }

/** What the post-execute stage answers (core.md §13). `content` and `value` exclude each other. */
export type PostDecision =
  | { kind: 'accept'; content?: ContentBlock[]; value?: JsonValue; additionalContexts?: UserMessage[] }
  | { kind: 'block'; feedback: ContentBlock[]; additionalContexts?: UserMessage[] }

/** How an ask ended (core.md §25.1). `arguments` are an approver's edit (api.md §7). */
export type ApprovalOutcome =
  | { outcome: 'allowed-once'; arguments?: JsonValue }
  | { outcome: 'rejected' | 'cancelled' | 'unavailable' }

/** One ask, as it reaches whoever decides. `signal` is the caller's own (core.md §10.5). */
export interface ApprovalAsk {
  agent: Agent
  toolName: string
  callId: string
  reason?: string
  signal: AbortSignal
  exec: Execution
}

/** Where an `ask` goes. A rejection fails the call at its pre-execute stage; edited arguments are validated already (api.md §7). */
export interface ApprovalChannel {
  request(ask: ApprovalAsk): Promise<ApprovalOutcome>
}

export const allow = (): PreDecision => ({ kind: 'allow' })
export const deny = (reason: string): PreDecision => ({ kind: 'deny', reason })
export const ask = (reason?: string): PreDecision => (reason === undefined ? { kind: 'ask' } : { kind: 'ask', reason })
export const accept = (): PostDecision => ({ kind: 'accept' })
export const block = (feedback: ContentBlock[]): PostDecision => ({ kind: 'block', feedback })
