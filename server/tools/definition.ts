import type { JsonValue } from '../json/lossless.ts'
import type { JsonSchema } from '../schema/spec.ts'
import type { RunContext, Execution } from '../pipeline/execution.ts'
import type { ToolResult } from '../pipeline/result.ts'

/** One block of what a model or a person sees (core.md §1). The union is open: unknown types pass through. */
export type ContentBlock =
  | { type: 'text'; text: string }
  | { type: 'reasoning'; text: string }
  | { type: 'image'; [key: string]: JsonValue }
  | { type: string; [key: string]: JsonValue }

/** Where a message came from (core.md §1). */
export type MessageSource =
  | { kind: 'user' }
  | { kind: 'plugin'; plugin: string; form?: string; summary?: string; [key: string]: JsonValue | undefined }
  | { kind: 'tool'; callId: string }
  | { kind: 'model'; provider: string; model: string }

/** A message for the model's history: what contexts and tool results are made of (core.md §1). */
export interface UserMessage {
  id: string
  role: 'user'
  content: ContentBlock[]
  source: MessageSource
}

/** The only projection of a tool that a model sees (core.md §7.11). */
export interface ToolSchema {
  name: string
  description: string
  /** JSON Schema object of the arguments. */
  parameters: JsonSchema
}

/** What a tool returns and how it is shown (core.md §12.5). */
export interface OutputContract {
  /** The supported subset of JSON Schema (core.md §3), unless `validate` stands in for it. */
  schema: JsonSchema
  render(args: JsonValue, value: JsonValue): ContentBlock[]
  presentationMeta?(args: JsonValue, value: JsonValue): JsonValue
}

/** A tool as registered. The declarative parts are copied and frozen at registration (core.md §6.6). */
export interface ToolDefinition extends ToolSchema {
  output: OutputContract
  execute(args: JsonValue, exec: RunContext): unknown
  finalizeContent?(exec: Execution, result: ToolResult): ContentBlock[] | undefined
  /** Milliseconds of a cooperative deadline; enforced by the timeout policy, never shown to a model (core.md §18). */
  timeoutMs?: number
  /** True only if this very call may overlap others (core.md §21). */
  isConcurrencySafe?(args: JsonValue): boolean
  /** Running it again with the same arguments does no further harm: decides `retryable` (api.md §2). */
  idempotent?: boolean
  presentCall?(args: JsonValue): CallCard | undefined
  presentResult?(args: JsonValue, result: PresentedResult): ResultCard | undefined
  /**
   * Lists what the body would refuse in arguments, with paths, without running it: for dry runs and for arguments that an
   * approver edits (api.md §2, §7).
   */
  validateArguments?(args: JsonValue): string[] | Promise<string[]>
  /**
   * Stands in for core.md §3 where a tool came over the wire (api.md §3): lists violations of a value, with paths. With it
   * `output.schema` is not held to the supported subset.
   */
  validateOutput?(value: JsonValue): string[] | Promise<string[]>
  /** Where a tool came from that no plugin brought, as it is now; absent for those of plugins. */
  describeSource?(): ToolSource
}

/** Where a tool came from, and what runs it (api.md §3). Never holds a secret. */
export interface ToolSource {
  origin: 'wire' | 'import' | 'mcp'
  /** `kind`, and whatever the executor tells of itself. */
  executor: { kind: string; [key: string]: JsonValue }
}

/** What a result card is made from, live and on replay: the persisted part of a result, nothing else (core.md §28). */
export interface PresentedResult {
  content: readonly ContentBlock[]
  isError: boolean
  meta?: JsonValue
}

/** Card of a call that is about to run (backends.md §1.1). */
export type CallCard =
  | {
      card: 'generic'
      title: string
      kind?: CardKind
      rawInput?: JsonValue
      content?: ContentBlock[]
      locations?: { path: string; line?: number }[]
    }
  | { card: 'terminal'; title: string; description?: string; cwd?: string }
  | { card: 'diff'; title: string; diffs: FileDiff[]; locations?: { path: string; line?: number }[] }

export type CardKind = 'read' | 'edit' | 'delete' | 'move' | 'search' | 'execute' | 'fetch' | 'other'

export interface FileDiff {
  path: string
  oldText: string | null
  newText: string
}

/** Card of a settled call (backends.md §1.1). */
export type ResultCard =
  | { card: 'generic'; title?: string; content?: ContentBlock[] }
  | { card: 'terminal'; title?: string; output?: string; exitCode?: number; signal?: string }
  | { card: 'diff'; title?: string; diffs: FileDiff[] }
  | {
      card: 'search'
      shape: 'matches'
      title?: string
      files: { path: string; matches: { lineNumber: number; line: string }[] }[]
      truncated: boolean
      total: number
    }
  | { card: 'search'; shape: 'paths'; title?: string; paths: string[]; truncated: boolean; total: number }
  | {
      card: 'read'
      title?: string
      path: string
      offset: number
      lines: { number: number; text: string }[]
      totalLines: number
      lang?: string
      content?: string
    }
  | {
      card: 'web'
      kind: 'search'
      title?: string
      sources: { url: string; title?: string; snippet?: string; publishedAt?: string }[]
      truncated: boolean
      answer?: string
    }
  | { card: 'web'; kind: 'fetch'; title?: string; url: string; statusCode: number; truncated: boolean }
