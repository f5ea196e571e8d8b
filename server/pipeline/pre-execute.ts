import { deepFreeze } from '../json/deep-freeze.ts'
import { snapshot } from '../json/lossless.ts'
import type { ApprovalChannel, ApprovalOutcome, PreDecision } from './decisions.ts'
import { allow } from './decisions.ts'
import type { InFlight } from './execution.ts'
import { runChain } from './chain.ts'
import type { Hooks } from './hooks.ts'
import { isObject } from './result.ts'

/** How the stage ended: a denial has its reason, `cancelled` is an approval that the caller's own abort ended. */
export type Gate = { kind: 'allow' } | { kind: 'deny'; reason: string } | { kind: 'cancelled' }

type PreHooks = () => readonly Hooks['preExecute'][]

/** Runs the chain once and checks what it answers: anything but a proper decision throws, so it fails closed (core.md §9.5). */
export async function decide(call: InFlight, hooks: readonly Hooks['preExecute'][]): Promise<PreDecision> {
  if (hooks.length === 0) return allow()
  const { exec } = call
  const decision: unknown = await runChain({ listeners: hooks, invoke: (hook, next) => hook(exec, next), last: allow })
  if (!isObject(decision)) throw new TypeError('a preExecute hook returned no decision')
  const { kind, reason } = decision
  if (kind === 'allow') return allow()
  if (kind === 'deny' && typeof reason === 'string') return { kind, reason: reason === '' ? denied(exec.name) : reason }
  if (kind === 'ask' && reason === undefined) return { kind }
  if (kind === 'ask' && typeof reason === 'string') return reason === '' ? { kind } : { kind, reason }
  throw new TypeError('a preExecute hook returned an invalid decision')
}

/** The stage with its approval (core.md §10). Throws what a hook or the approval channel throws: the call then fails here. */
export async function preExecute(
  call: InFlight,
  hooks: PreHooks,
  approvals: (() => ApprovalChannel | undefined) | undefined
): Promise<Gate> {
  const decision = await decide(call, hooks())
  if (decision.kind === 'deny' || (decision.kind === 'allow' && !call.isAsked)) return decision
  const reason = decision.kind === 'ask' ? decision.reason : undefined
  const { agent, name, callId } = call.exec
  const channel = approvals?.()
  if (channel === undefined) {
    return { kind: 'deny', reason: reason ?? `tool "${name}" needs an approval, and nobody can give one` }
  }
  if (agent === undefined)
    return { kind: 'deny', reason: `tool "${name}" needs an approval, and the call has no agent` }

  const ask = { agent, toolName: name, callId, signal: call.callerSignal, exec: call.exec }
  call.onState?.('awaiting-approval')
  let answer: ApprovalOutcome
  try {
    answer = await channel.request(reason === undefined ? ask : { ...ask, reason })
  } finally {
    call.onState?.('running')
  }
  return settle(call, answer, hooks)
}

async function settle(call: InFlight, answer: ApprovalOutcome, hooks: PreHooks): Promise<Gate> {
  const { name } = call.exec
  switch (answer.outcome) {
    case 'allowed-once':
      return answer.arguments === undefined ? { kind: 'allow' } : edited(call, answer.arguments, hooks)
    case 'rejected':
      return { kind: 'deny', reason: `the approval of "${name}" was refused` }
    case 'cancelled':
      return call.callerSignal.aborted
        ? { kind: 'cancelled' }
        : { kind: 'deny', reason: `the approval of "${name}" was cancelled` }
    case 'unavailable':
      return { kind: 'deny', reason: `nobody was there to approve "${name}"` }
    default:
      throw new TypeError('the approval ended in an unknown outcome')
  }
}

/** An approver's edit meets the hooks once more: a denial stands, a second ask counts as answered (api.md §7). */
async function edited(call: InFlight, args: unknown, hooks: PreHooks): Promise<Gate> {
  call.arguments = deepFreeze(snapshot(args))
  const again = await decide(call, hooks())
  return again.kind === 'deny' ? again : { kind: 'allow' }
}

export const denied = (name: string): string => `the call of "${name}" was denied`
