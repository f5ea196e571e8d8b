import type { Executor } from './executor.ts'
import { HttpToolError } from './http-executor-errors.ts'

/** Hears of a call that came to nothing, for the operators' log: with the address of the tool's server, which agents are not told. */
export type ReportFailure = (details: {
  tool: string
  callId: string
  origin: string
  code: string
  error: string
}) => void

/** An executor whose failures to get an answer of its server are reported. What the tool itself says of a call is its result alone. */
export function reported(executor: Executor, origin: string, report: ReportFailure): Executor {
  return {
    kind: executor.kind,
    describe: () => executor.describe(),
    async run(call) {
      try {
        return await executor.run(call)
      } catch (error) {
        if (error instanceof HttpToolError) {
          const { code, message, cause } = error
          report({ tool: call.name, callId: call.callId, origin, code, error: reasonOf(cause) || message })
        }
        throw error
      }
    }
  }
}

/** Node gathers the failures of several addresses. */
function reasonOf(cause: unknown): string {
  if (cause instanceof AggregateError) return cause.errors.map(reasonOf).join('; ')
  return cause instanceof Error ? cause.message : ''
}
