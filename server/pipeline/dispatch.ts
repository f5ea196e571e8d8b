import type { UserMessage } from '../tools/definition.ts'
import { ToolOutputError } from '../tools/output-error.ts'
import { cancelled, fuse, unlessCancelled } from './cancellation.ts'
import type { InFlight } from './execution.ts'
import { runChain } from './chain.ts'
import type { Hooks } from './hooks.ts'
import type { Catalogue } from './materialize.ts'
import { project } from './output.ts'
import {
  type ErrorInfo,
  type Failure,
  type ToolResult,
  fail,
  failureFrom,
  invalidOutput,
  isObject,
  seal,
  unknownTool,
  withContexts
} from './result.ts'

/** What goes on to post-execute, and what does not because the around stage itself failed (core.md §13.1). */
export type Dispatched = { stage: 'post-result' | 'final-result'; result: ToolResult }

/** The around stage: wrappers, the body, and what either makes of the call (core.md §12). Never rejects. */
export async function dispatch(
  call: InFlight,
  catalogue: Catalogue,
  hooks: readonly Hooks['execute'][]
): Promise<Dispatched> {
  call.isDispatching = true
  let outcome: Outcome
  try {
    outcome = hooks.length === 0 ? post(await runBody(call, catalogue)) : await around(call, catalogue, hooks)
  } catch (thrown) {
    outcome = final(fail(call, 'wrapper', failureFrom(thrown)))
  } finally {
    call.isDispatching = false
    call.signal = call.callerSignal
  }
  if (outcome.stage === 'final-result') return outcome

  // Before the wrappers' own contexts, which are on the result by now (core.md §12.11).
  const result = unlessCancelled(call, withContexts(outcome.result, call.deferred, undefined))
  if (result.isError) call.stoppedAt ??= 'wrapper'
  else call.stoppedAt = undefined
  return post(seal(call, result))
}

type Outcome = Dispatched
const post = (result: ToolResult): Outcome => ({ stage: 'post-result', result })
const final = (result: Failure): Outcome => ({ stage: 'final-result', result })

async function around(call: InFlight, catalogue: Catalogue, hooks: readonly Hooks['execute'][]): Promise<Outcome> {
  const { exec } = call
  const produced = new Set<unknown>()
  const outcome: unknown = await runChain<Hooks['execute'], ToolResult>({
    listeners: hooks,
    invoke: (hook, next) => hook(exec, next, catalogue.lookup(exec.name, exec.agent?.scope)),
    last: async () => {
      const result = await runBody(call, catalogue)
      produced.add(result)
      return result
    },
    around: true
  })
  if (produced.has(outcome)) return post(outcome as ToolResult)
  if (isObject(outcome) && outcome['isError'] === true) return post(seal(call, authoredFailure(outcome)))
  if (isObject(outcome) && outcome['isError'] === false) return authoredSuccess(call, catalogue, outcome)
  throw new TypeError('an execute hook returned no result')
}

/** One attempt at the body. Resolves for every outcome: a wrapper never sees a rejection of it (core.md §12.1). */
async function runBody(call: InFlight, catalogue: Catalogue): Promise<ToolResult> {
  const { exec } = call
  const outer = call.signal
  const fused = fuse(outer, call.callerSignal)
  try {
    if (fused.signal.aborted) return cancelled(call)
    const tool = catalogue.lookup(exec.name, exec.agent?.scope)
    if (tool === undefined) return fail(call, 'name', unknownTool(exec.name))

    const before = call.effect
    call.tool = tool
    call.stoppedAt = undefined
    call.bodyInvoked = true
    call.effect = 'unknown'
    call.signal = fused.signal
    let value: unknown
    try {
      value = await tool.execute(exec.arguments as never, exec)
    } catch (thrown) {
      const result = failureFrom(thrown)
      // What was to run ran, and answered amiss (api.md §2).
      if (thrown instanceof ToolOutputError) {
        call.effect = 'completed'
        return fail(call, 'output', result)
      }
      const isArguments = result.error.info?.code === 'INVALID_ARGS'
      // Refused before it began, so this attempt did nothing (api.md §2).
      if (isArguments || hasNoEffect(result.error.info, thrown)) call.effect = before
      return fail(call, isArguments ? 'arguments' : 'body', result)
    }
    call.effect = 'completed'
    const result = await project(call, tool, value)
    return !result.isError && fused.signal.aborted ? cancelled(call) : result
  } finally {
    fused.release()
    call.signal = outer
  }
}

/** A coded error can say `effect: 'none'`: an executor that found nobody to run the call (api.md §3). */
const hasNoEffect = (info: ErrorInfo | undefined, thrown: unknown): boolean =>
  info !== undefined && isObject(thrown) && thrown['effect'] === 'none'

/** A wrapper's own failure, field by field: its content and meta are kept (core.md §12.8). */
function authoredFailure(outcome: Record<string, unknown>): Failure {
  const { error, content, additionalContexts } = outcome
  if (!isObject(error) || typeof error['message'] !== 'string') throw new TypeError('a failure needs error.message')
  const copy: Record<string, unknown> = { isError: true, error: { message: error['message'] }, content }
  if (Object.hasOwn(error, 'info')) {
    const { info } = error
    if (!isObject(info) || typeof info['name'] !== 'string' || typeof info['code'] !== 'string') {
      throw new TypeError('error.info needs a name and a code')
    }
    copy['error'] = { message: error['message'], info: { name: info['name'], code: info['code'] } }
  }
  if (!Array.isArray(content)) throw new TypeError('a failure needs an array of content')
  if (Object.hasOwn(outcome, 'meta')) copy['meta'] = outcome['meta']
  const contexts = contextsOf(additionalContexts)
  if (contexts !== undefined) copy['additionalContexts'] = contexts
  return copy as unknown as Failure
}

/** A wrapper's own success counts for its value and contexts alone; all else is made anew by the tool (core.md §12.8). */
async function authoredSuccess(
  call: InFlight,
  catalogue: Catalogue,
  outcome: Record<string, unknown>
): Promise<Outcome> {
  const contexts = contextsOf(outcome['additionalContexts'])
  const { name, agent } = call.exec
  if (!Object.hasOwn(outcome, 'value')) return final(fail(call, 'wrapper', invalidOutput('a success needs a value')))
  const tool = catalogue.lookup(name, agent?.scope)
  if (tool === undefined) return final(fail(call, 'name', unknownTool(name)))
  const result = await project(call, tool, outcome['value'])
  return result.isError ? final(result) : post(withContexts(result, undefined, contexts))
}

function contextsOf(contexts: unknown): UserMessage[] | undefined {
  if (contexts === undefined) return undefined
  if (!Array.isArray(contexts)) throw new TypeError('additionalContexts must be an array')
  return contexts.length === 0 ? undefined : contexts
}
