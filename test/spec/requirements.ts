import { callRules } from './requirements/calls.ts'
import { pipelineRules } from './requirements/pipeline.ts'
import { sessionRules } from './requirements/sessions.ts'
import { toolRules } from './requirements/tools.ts'

/** `later`: its part of the server is not built yet. `caller`: it binds the agent's loop, which is not part of the server. */
export type Status = 'later' | 'caller'

/** A rule: its number in core.md (or the paragraph's and a word, where one holds several), what it says, and why no test proves it. */
export type Rule = [number: string, rule: string] | [number: string, rule: string, status: Status, reason: string]
export type RuleList = readonly Rule[]

/** One binding rule of core.md. Tests cite its id in their titles, in brackets. */
export interface Requirement {
  id: string
  rule: string
  /** Absent: a test must prove it. */
  exempt?: { status: Status; reason: string }
}

export const requirements: readonly Requirement[] = [...toolRules, ...pipelineRules, ...callRules, ...sessionRules].map(
  ([number, rule, status, reason = '']) => ({
    id: `core-${number}`,
    rule,
    ...(status === undefined ? {} : { exempt: { status, reason } })
  })
)
