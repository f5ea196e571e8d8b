import { randomUUID } from 'node:crypto'
import { setMaxListeners } from 'node:events'
import type { BoundFunction, RunRequest, RunResult } from '../code-runtime/code-runtime.ts'
import { deepFreeze } from '../json/deep-freeze.ts'
import { type JsonValue, snapshot } from '../json/lossless.ts'
import type { RunContext } from '../pipeline/execution.ts'
import type { Pipeline } from '../pipeline/pipeline.ts'
import type { ToolResult } from '../pipeline/result.ts'
import type { Agent, Scope } from '../scopes/scope.ts'
import type { ContentBlock, ToolDefinition } from '../tools/definition.ts'
import { transportName } from '../tools/reserved-names.js'
import { approximateBytes } from './argument-size.ts'
import { type DispatchedCall, type DispatchEvent, DispatchJournal } from './dispatch-journal.ts'
import { Lane } from './lane.ts'
import { runIsOver, type StagedPipeline, SubCall } from './sub-call.ts'

/** The source of the messages that carry a program's images to the model (code-mode.md §13.5). */
const imageSource = { kind: 'plugin', plugin: 'tools-code-mode' } as const

const mib = 1024 * 1024
/** Arguments that one program's calls may hold at a time: more would pile up in the server's memory, behind a call that takes its time. */
const maxHeldBytes = 64 * mib
const maxUnwrittenBytes = 8 * mib

/** What programs' calls go through. */
export interface BridgeParts {
  registry: { view(scope?: Scope): ToolDefinition[] }
  pipeline: StagedPipeline & Pick<Pipeline, 'dispatchLogContent'>
  /** Bodies of one program's calls that may overlap; a positive integer (code-mode.md §11). */
  maxParallelSubCalls: number
  /** Calls that one program may make in all; 0 is no limit. */
  maxSubCalls: number
  /** Bytes, about, that the log takes of a call's arguments, and of its content. */
  maxStoredPayloadBytes: number
  /** Appends an event to an agent's session; the promise settles when that is durable, or failed. */
  append: (agent: Agent, event: DispatchEvent) => Promise<unknown>
  /** Hears of partial output of a call's body. */
  onProgress: (agent: Agent, call: { callId: string; name: string }, chunk: string) => void
}

/** Runs one program with the tools that the outer call's agent sees, from its start until all its calls are settled and logged. */
export async function runProgram(
  parts: BridgeParts,
  exec: RunContext,
  run: (request: RunRequest) => Promise<RunResult>,
  program: string
): Promise<RunResult> {
  return new ProgramRun(parts, exec).run(run, program)
}

/** The program has the value in any case: only the logged copy gives way. */
function storable(content: readonly ContentBlock[], maxBytes: number): readonly ContentBlock[] {
  const bytes = approximateBytes(content as unknown as JsonValue)
  if (bytes <= maxBytes) return content
  return [{ type: 'text', text: `(about ${bytes} bytes, more than maxStoredPayloadBytes: they are not stored)` }]
}

class ProgramRun {
  readonly #parts: BridgeParts
  readonly #exec: RunContext
  readonly #lane: Lane
  readonly #journal: DispatchJournal | undefined
  /** Fires when the run is over, for whatever reason (code-mode.md §14.1). */
  readonly #over = new AbortController()
  #calls = 0
  #heldBytes = 0

  constructor(parts: BridgeParts, exec: RunContext) {
    this.#parts = parts
    this.#exec = exec
    this.#lane = new Lane(parts.maxParallelSubCalls)
    this.#journal = this.#openJournal()
    // Every call in flight listens to it, and a body as often as it likes.
    setMaxListeners(0, this.#over.signal)
    this.#over.signal.addEventListener('abort', () => this.#lane.close())
  }

  async run(run: (request: RunRequest) => Promise<RunResult>, program: string): Promise<RunResult> {
    const { signal } = this.#exec
    const follow = (): void => this.#over.abort(signal.reason)
    signal.addEventListener('abort', follow)
    if (signal.aborted) follow()
    try {
      return await run({
        program,
        bindings: [
          {
            global: 'tools',
            functions: this.#functions(),
            errorClass: { name: 'ToolCallError', memberNameProperty: 'toolName' }
          }
        ],
        signal: this.#over.signal,
        // As the lines of the rendered output will be.
        onLog: (text) => this.#exec.progress(`${text}\n`)
      })
    } finally {
      signal.removeEventListener('abort', follow)
      this.#over.abort(new Error('the program has ended'))
      await this.#lane.whenQuiet()
      await this.#journal?.whenWritten()
    }
  }

  /** One function for each tool that is visible now: the set is fixed for the run (code-mode.md §13.1). */
  #functions(): Record<string, BoundFunction> {
    const functions = Object.create(null) as Record<string, BoundFunction>
    for (const { name } of this.#parts.registry.view(this.#exec.agent?.scope)) {
      if (name === transportName) continue
      // Assigning to a name such as __proto__ would do something else.
      Object.defineProperty(functions, name, { value: (given: unknown) => this.#call(name, given), enumerable: true })
    }
    return functions
  }

  async #call(name: string, given: unknown): Promise<unknown> {
    const { signal } = this.#over
    if (signal.aborted) throw runIsOver()
    const args = deepFreeze(snapshot(given))
    const bytes = approximateBytes(args)
    const { maxSubCalls, maxStoredPayloadBytes } = this.#parts
    if (maxSubCalls > 0 && this.#calls >= maxSubCalls) {
      throw new Error(`the program has made as many calls as it may (maxSubCalls: ${maxSubCalls})`)
    }
    if (bytes > maxStoredPayloadBytes) {
      throw new Error(`the arguments are too large to be stored (maxStoredPayloadBytes: ${maxStoredPayloadBytes})`)
    }
    if (this.#heldBytes + bytes > maxHeldBytes) {
      throw new Error(`the calls under way hold more than ${maxHeldBytes / mib} MiB of arguments`)
    }
    this.#calls += 1
    this.#heldBytes += bytes
    const { callId: parentCallId, rootCallId, token, agent } = this.#exec
    const callId = `${parentCallId}:code:${this.#calls}`
    const record: DispatchedCall = { rootCallId, parentCallId, subCallId: callId, name, arguments: args }
    const sized = { call: record, bytes }
    const call = new SubCall(
      this.#parts.pipeline,
      {
        callId,
        rootCallId,
        name,
        arguments: args,
        parent: token,
        signal,
        onPersonAwaited: () => this.#awaitPerson(),
        ...(agent && { agent, onProgress: (chunk: string) => this.#parts.onProgress(agent, { callId, name }, chunk) })
      },
      {
        started: () => this.#journal?.started(sized),
        committed: (result) => {
          this.#heldBytes -= bytes
          this.#carryUp(result)
        },
        logged: async (result) => {
          this.#journal?.settled(sized, result)
          await this.#journal?.room()
        }
      }
    )
    this.#lane.submit(call)
    return call.answer
  }

  /** A call waits for a person, and the outer one with it (api.md §7). */
  #awaitPerson(): () => Promise<void> {
    let answer = (): void => undefined
    const over = this.#exec.awaitPerson(new Promise<void>((resolve) => (answer = resolve)))
    return () => {
      answer()
      return over
    }
  }

  /** Contexts, images and a conclusion of a call go to the outer one, in the order of commits (code-mode.md §13.5). */
  #carryUp(result: ToolResult): void {
    const { deferContext, concludeTurn } = this.#exec
    if (!result.isError && result.content.some(({ type }) => type === 'image')) {
      deferContext({ id: randomUUID(), role: 'user', content: [...result.content], source: imageSource })
    }
    for (const context of result.additionalContexts ?? []) deferContext(context)
    if (!result.isError && result.concludesTurn) concludeTurn()
  }

  /** Without an agent there is no session, and nothing to write to (code-mode.md §13.3). */
  #openJournal(): DispatchJournal | undefined {
    const { agent } = this.#exec
    if (agent === undefined) return undefined
    return new DispatchJournal({
      append: (event) => this.#parts.append(agent, event),
      contentOf: async (settled) =>
        storable(
          await this.#parts.pipeline.dispatchLogContent({ agent, ...settled }),
          this.#parts.maxStoredPayloadBytes
        ),
      maxUnwritten: this.#parts.maxParallelSubCalls,
      maxUnwrittenBytes,
      onFailure: (error) => this.#over.abort(error)
    })
  }
}
