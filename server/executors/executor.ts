import type { JsonObject, JsonValue } from '../json/lossless.ts'
import type { ContentBlock } from '../tools/definition.ts'

/** One call as what runs a wire tool sees it (api.md §3). The arguments are valid by the tool's schema. */
export interface WireCall {
  readonly callId: string
  /** Identity of the execution in this process, by which who traces calls knows it. */
  readonly token?: symbol
  readonly name: string
  readonly arguments: JsonValue
  readonly scope: string
  /** Absent for a call that was made in process by nobody's agent. */
  readonly session?: string
  /** Aborted by the caller, by the deadline and by the disposal of the tool. */
  readonly signal: AbortSignal
  /** Epoch milliseconds by which the timeout policy will abort; absent where the tool declares no `timeoutMs`. */
  readonly deadlineAt?: number
  /** Whether running it again does no further harm: only then may it be sent twice. */
  readonly isIdempotent: boolean
  /** Reports partial output, seen live and not stored. */
  readonly progress: (chunk: string) => void
}

/** What came of it: the canonical value, and the blocks for the model where the executor makes them itself. */
export interface WireAnswer {
  readonly value: JsonValue
  readonly content?: ContentBlock[]
}

/** What runs a tool that came over the wire (api.md §3). */
export interface Executor {
  readonly kind: 'http' | 'command' | 'client' | 'mcp'
  /** What `GET /tools` shows of it besides the kind: never a secret. */
  describe(): JsonObject
  /** Rejects with a `CodedError` for what the model may be told; one with `effect: 'none'` says that the tool did not run. */
  run(call: WireCall): Promise<WireAnswer>
}
