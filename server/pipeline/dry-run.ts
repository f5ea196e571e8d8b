import type { JsonValue } from '../json/lossless.ts'
import type { Scope } from '../scopes/scope.ts'
import type { InFlight } from './execution.ts'
import { guardRefusal } from './guard.ts'
import { hooksOf } from './hooks.ts'
import type { Materialized } from './materialize.ts'
import { decide, denied } from './pre-execute.ts'
import { type Failure, failureFrom, unknownTool } from './result.ts'

/** What a call would meet before its body (api.md §2). */
export interface DryRunReport {
  decision: 'allow' | 'deny' | 'ask'
  reason?: string
  /** What is wrong with the arguments, with paths: the call would fail with `INVALID_ARGS`. */
  violations?: string[]
  /** What the call would fail with for another cause than a denial: an unknown tool, say, or a hook that threw. */
  error?: Failure['error']
}

/** Validates, runs pre-execute and guards, and reports. Runs no body, asks nobody, notifies nobody (api.md §2). */
export async function dryRun({ call, result }: Materialized, chain: readonly Scope[]): Promise<DryRunReport> {
  if (result !== undefined) return failing(result.error)
  const validation = await validated(call)
  try {
    const decision = await decide(call, hooksOf('preExecute', chain))
    if (decision.kind === 'deny') return { decision: 'deny', reason: decision.reason, ...validation }
    // After an approval the guards could still refuse: then there is nothing to ask (core.md §10.5).
    const refusal = guardRefusal(call.exec, chain)
    if (refusal !== undefined) return { decision: 'deny', reason: refusal || denied(call.exec.name), ...validation }
    if (decision.kind === 'allow' || decision.reason === undefined) return { decision: decision.kind, ...validation }
    return { decision: 'ask', reason: decision.reason, ...validation }
  } catch (thrown) {
    return { ...failing(failureFrom(thrown).error), ...validation }
  }
}

const failing = (error: Failure['error']): DryRunReport => ({ decision: 'deny', reason: error.message, error })

async function validated({ tool, exec }: InFlight): Promise<Pick<DryRunReport, 'violations' | 'error'>> {
  if (tool === undefined) return { error: unknownTool(exec.name).error }
  try {
    const violations = await tool.validateArguments?.(exec.arguments as JsonValue)
    return violations === undefined || violations.length === 0 ? {} : { violations }
  } catch (thrown) {
    return { error: failureFrom(thrown).error }
  }
}
