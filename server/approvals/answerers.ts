import { isLosslessJson, type JsonValue } from '../json/lossless.ts'
import type { ApprovalAsk, ApprovalOutcome } from '../pipeline/decisions.ts'
import { runChain } from '../pipeline/chain.ts'
import { type Hooks, hooksOf } from '../pipeline/hooks.ts'
import type { ToolDefinition } from '../tools/definition.ts'

const refusals: ReadonlySet<unknown> = new Set(['rejected', 'cancelled', 'unavailable'])

/**
 * Runs the chain of answerers, `people` being its end (core.md §25.4). One that throws, or answers what is no outcome, leaves nobody
 * to answer: `onError` hears of it. Never rejects.
 */
export async function askAnswerers(
  ask: ApprovalAsk,
  {
    people,
    tool,
    onError
  }: {
    people: () => ApprovalOutcome | Promise<ApprovalOutcome>
    tool: ToolDefinition | undefined
    onError: (error: unknown) => void
  }
): Promise<ApprovalOutcome> {
  try {
    const answer: unknown = await runChain<Hooks['approvalRequest'], ApprovalOutcome>({
      listeners: hooksOf('approvalRequest', ask.agent.scope.chain),
      invoke: (answerer, next) => answerer(ask, next),
      last: people
    })
    const { outcome, arguments: edited } = (answer ?? {}) as { outcome?: unknown; arguments?: JsonValue }
    if (refusals.has(outcome)) return { outcome } as ApprovalOutcome
    if (outcome !== 'allowed-once') throw new TypeError('an answerer gave no outcome of an approval')
    if (edited === undefined) return { outcome }
    const violations = await violationsIn(tool, edited)
    if (violations.length > 0) throw new TypeError(`an answerer edited the arguments: ${violations.join('; ')}`)
    return { outcome, arguments: edited }
  } catch (error) {
    onError(error)
    return { outcome: 'unavailable' }
  }
}

/** What the tool's body would refuse in edited arguments. */
export async function violationsIn(tool: ToolDefinition | undefined, args: JsonValue): Promise<string[]> {
  if (!isLosslessJson(args)) return ['the arguments are not lossless JSON']
  return (await tool?.validateArguments?.(args)) ?? []
}
