import type { RunContext } from '../../server/pipeline/execution.ts'
import { type Agent, Scope } from '../../server/scopes/scope.ts'

const scope = new Scope('global')

/** An agent with nothing behind it. */
export const agentOf = (id: string): Agent => ({ id, scope })

/** What a body gets, without a pipeline around it. */
export function runContext(more: Partial<RunContext> = {}): RunContext {
  return {
    callId: 'call-1',
    rootCallId: 'call-1',
    name: 'tool',
    arguments: {},
    token: Symbol('test'),
    signal: new AbortController().signal,
    deferContext() {},
    concludeTurn() {},
    progress() {},
    awaitPerson: (answer) => answer,
    ...more
  }
}
