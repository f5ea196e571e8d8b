import { createHash } from 'node:crypto'
import type { JsonObject } from '../../json/lossless.ts'
import { stringifyJson } from '../../json/serialize.ts'
import type { Scope } from '../../scopes/scope.ts'
import type { ToolDefinition, ToolSchema } from '../../tools/definition.ts'
import type { Prompt } from '../../tools/presentation.ts'
import { transportName } from '../../tools/reserved-names.js'
import { inputSchema, outputSchema } from './output-schema.ts'

/** The answer of `tools/list` in one scope, and a digest that changes when it does. */
export interface ToolList {
  readonly tools: readonly JsonObject[]
  readonly fingerprint: string
}

/**
 * What each scope's model is to be given, as MCP lists it (api.md §6): the tools under the effective mode. What else the model must be told,
 * code mode's rule and SDK, stands in the description of `run_code`: of `instructions` there is only one, at the start of a session.
 */
export class ToolLists {
  readonly #assemble: (scope: Scope) => Prompt
  readonly #definition: (name: string, scope: Scope) => ToolDefinition | undefined
  #lists = new WeakMap<Scope, ToolList>()

  constructor(
    assemble: (scope: Scope) => Prompt,
    definition: (name: string, scope: Scope) => ToolDefinition | undefined
  ) {
    this.#assemble = assemble
    this.#definition = definition
  }

  /** Throws what the assembly throws: `CODE_RUNTIME_MISSING`, or a plain `Error` about the configured order. */
  of(scope: Scope): ToolList {
    const known = this.#lists.get(scope)
    if (known !== undefined) return known
    const { tools: schemas, sections } = this.#assemble(scope)
    const further = sections.map(({ text }) => text).filter((text) => text !== '')
    const tools = schemas.map((schema) => this.#tool(schema, scope, schema.name === transportName ? further : []))
    const text = stringifyJson(tools)
    const list = { tools, fingerprint: createHash('sha256').update(text).digest('base64url') }
    this.#lists.set(scope, list)
    return list
  }

  /** Something has changed somewhere: nothing that is known holds any more. */
  forget(): void {
    this.#lists = new WeakMap()
  }

  #tool({ name, description, parameters }: ToolSchema, scope: Scope, further: readonly string[]): JsonObject {
    const definition = this.#definition(name, scope)
    return {
      name,
      description: [description, ...further].join('\n\n'),
      inputSchema: inputSchema(parameters),
      ...(definition !== undefined && { outputSchema: outputSchema(definition.output.schema) }),
      ...(definition?.idempotent === true && { annotations: { idempotentHint: true } })
    }
  }
}
