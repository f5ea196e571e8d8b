import { createHash } from 'node:crypto'
import type { Row } from '../event-log/event-log.ts'
import { canonicalJson } from '../json/canonical.ts'
import type { JsonObject, JsonValue } from '../json/lossless.ts'
import { stringifyJson } from '../json/serialize.ts'
import type { ApprovalOutcome } from '../pipeline/decisions.ts'
import type { ToolDefinition } from '../tools/definition.ts'

export type Outcome = ApprovalOutcome['outcome']

/** An ask, as it is stored and shown (api.md §7). `hash` is of exactly what would run. Times are epoch milliseconds. */
export interface Approval {
  readonly id: string
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
  decision?: Decision
}

export interface Decision {
  readonly outcome: Outcome
  readonly by?: string
  readonly at: number
  /** The arguments as the approver edited them. */
  readonly arguments?: JsonValue
}

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
    kind: 'tool',
    state: 'pending',
    hash: approval.hash,
    data: stringifyJson({ toolName, arguments: args, ...(reason === undefined ? {} : { reason }) }),
    created_at: approval.createdAt,
    expires_at: approval.expiresAt ?? null
  }
}

export function fromRow(row: Row): Approval {
  const data = JSON.parse(String(row['data'])) as { toolName: string; arguments: JsonValue; reason?: string }
  return {
    id: String(row['id']),
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
  return {
    outcome: String(row['outcome']) as Outcome,
    at: Number(row['decided_at']),
    ...(row['decided_by'] == null ? {} : { by: String(row['decided_by']) }),
    ...(row['answer'] == null ? {} : { arguments: JSON.parse(String(row['answer'])) as JsonValue })
  }
}
