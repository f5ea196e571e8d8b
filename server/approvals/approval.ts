import { createHash } from 'node:crypto'
import type { Row } from '../event-log/event-log.ts'
import type { Answer } from '../backends/questions/questions.ts'
import { canonicalJson } from '../json/canonical.ts'
import type { JsonObject, JsonValue } from '../json/lossless.ts'
import { stringifyJson } from '../json/serialize.ts'
import type { ApprovalOutcome } from '../pipeline/decisions.ts'
import type { ToolDefinition } from '../tools/definition.ts'

/** An ask, as it is stored and shown (api.md §7). `hash` is of exactly what would run. Times are epoch milliseconds. */
export interface Approval {
  readonly id: string
  /** A `question` is answered and not allowed; its `arguments` hold the questions and nothing else. */
  readonly kind: 'tool' | 'question'
  readonly session: string
  readonly scope: string
  readonly callId: string
  readonly toolName: string
  readonly reason?: string
  readonly arguments: JsonValue
  readonly hash: string
  readonly createdAt: number
  /** Absent: it never expires. */
  readonly expiresAt?: number
  /** Absent while it is pending. */
  decision?: Decision
}

export interface Decision {
  readonly outcome: ApprovalOutcome['outcome'] | 'answered'
  readonly at: number
  /** The person who decided, by the label of the token, or its id; absent when it was no person. */
  readonly by?: string
  /** That person's reason, for the record. */
  readonly reason?: string
  /** The arguments as they were edited. */
  readonly arguments?: JsonValue
  /** In the order of the questions. */
  readonly answers?: readonly Answer[]
}

/** What the call of a `tool` approval is told. */
export const outcomeOf = ({ outcome, arguments: edited }: Decision): ApprovalOutcome =>
  outcome === 'allowed-once' && edited !== undefined ? { outcome, arguments: edited } : ({ outcome } as ApprovalOutcome)

/** What an approval freezes (reliability.md §1.11): if any of it is different when it is decided, it would approve something else. */
export interface FrozenCall {
  tool: ToolDefinition | undefined
  toolName: string
  arguments: JsonValue
  session: string
  scope: string
  callId: string
  /** Canonical path of the working directory: a symbolic link that moved is another place. */
  workdir: string
  /** Digest of the rules that let the call come to an ask. */
  policyVersion: string
}

export function hashOf({ tool, ...call }: FrozenCall): string {
  const definition: JsonObject | null =
    tool === undefined
      ? null
      : {
          name: tool.name,
          description: tool.description,
          parameters: tool.parameters,
          output: tool.output.schema
        }
  return createHash('sha256')
    .update(canonicalJson({ ...call, definition }))
    .digest('hex')
}

/** The columns of an ask that is being stored. */
export function toRow(approval: Approval): Row {
  const { toolName, reason, arguments: args } = approval
  return {
    id: approval.id,
    session: approval.session,
    scope: approval.scope,
    call_id: approval.callId,
    kind: approval.kind,
    state: 'pending',
    hash: approval.hash,
    data: stringifyJson({ toolName, arguments: args, ...(reason === undefined ? {} : { reason }) }),
    created_at: approval.createdAt,
    expires_at: approval.expiresAt ?? null
  }
}

/** The columns that a decision changes. */
export function decidedColumns(id: string, { outcome, at, by, reason, arguments: edited, answers }: Decision): Row {
  const answer = {
    ...(reason === undefined ? {} : { reason }),
    ...(edited === undefined ? {} : { arguments: edited }),
    ...(answers === undefined ? {} : { answers: answers as unknown as JsonValue })
  }
  return {
    id,
    state: 'decided',
    outcome,
    decided_at: at,
    decided_by: by ?? null,
    answer: Object.keys(answer).length === 0 ? null : stringifyJson(answer)
  }
}

export function fromRow(row: Row): Approval {
  const data = JSON.parse(String(row['data'])) as { toolName: string; arguments: JsonValue; reason?: string }
  return {
    id: String(row['id']),
    kind: row['kind'] === 'question' ? 'question' : 'tool',
    session: String(row['session']),
    scope: String(row['scope']),
    callId: String(row['call_id']),
    ...data,
    hash: String(row['hash']),
    createdAt: Number(row['created_at']),
    ...(row['expires_at'] == null ? {} : { expiresAt: Number(row['expires_at']) }),
    ...(row['state'] === 'pending' ? {} : { decision: decisionOf(row) })
  }
}

function decisionOf(row: Row): Decision {
  const answer =
    row['answer'] == null
      ? {}
      : (JSON.parse(String(row['answer'])) as Pick<Decision, 'reason' | 'arguments' | 'answers'>)
  return {
    outcome: String(row['outcome']) as Decision['outcome'],
    at: Number(row['decided_at']),
    ...(row['decided_by'] == null ? {} : { by: String(row['decided_by']) }),
    ...answer
  }
}
