import { RequestError } from '../errors.ts'
import { indentedJson } from '../json/indented.ts'
import type { JsonValue } from '../json/lossless.ts'
import { ownValue } from '../json/plain.ts'
import type { WireSchema, WireSchemas } from '../schema/ajv-validator.ts'
import type { JsonSchema } from '../schema/spec.ts'
import { ToolArgsError } from '../tools/args-error.ts'
import type { ContentBlock, ToolDefinition } from '../tools/definition.ts'
import { toolNamePattern, transportName } from '../tools/reserved-names.js'
import { isTimeout, maxTimeoutMs } from '../tools/snapshot-definition.ts'
import type { Executor } from './executor.ts'
import { GivenContent } from './given-content.ts'

/** A tool as it came over the wire, without what runs it (api.md §3). */
export interface WireToolFields {
  /** Matches `^[A-Za-z0-9_-]{1,64}$`, and is not `run_code`. */
  readonly name: string
  readonly description: string
  /** JSON Schema (2020-12 or draft-07) of the arguments; its root has `"type": "object"`. */
  readonly parameters: JsonSchema
  /** Absent: any JSON. */
  readonly output?: { readonly schema: JsonSchema }
  /** Milliseconds of a call, enforced by the timeout policy; at most 2 147 483 647. */
  readonly timeoutMs?: number
  /** Whether calls may overlap others; `exclusive` when absent. */
  readonly concurrency?: 'parallel' | 'exclusive'
  /** Whether running it again with the same arguments does no further harm. */
  readonly idempotent?: boolean
  /** How it was registered; `wire` when absent. */
  readonly origin?: 'wire' | 'import'
}

/**
 * The definition of a tool that came over the wire, to be registered as any other: its schemas are compiled here, `executor` runs its
 * calls (api.md §3). Rejects with `INVALID_DEFINITION` for a member that is not as it must be, and with `JsonSchemaError`
 * (`UNSUPPORTED_SCHEMA`) naming the place in `parameters` or `output.schema`.
 */
export async function wireTool(
  given: WireToolFields,
  executor: Executor,
  schemas: WireSchemas
): Promise<ToolDefinition> {
  const { name, description, output, timeoutMs, concurrency, idempotent, origin = 'wire' } = given
  assertFields(given)
  const parameters = await schemas.compile(given.parameters, 'parameters')
  const outputSchema = output === undefined ? undefined : await schemas.compile(output.schema, 'output.schema')
  const content = new GivenContent(renderValue)
  return {
    name,
    description,
    parameters: parameters.schema,
    output: { schema: outputSchema?.schema ?? {}, render: (_args, value) => renderValue(value) },
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
    ...(idempotent === undefined ? {} : { idempotent }),
    ...(concurrency === 'parallel' ? { isConcurrencySafe: () => true } : {}),
    validateArguments: (args) => argumentViolations(parameters, args),
    ...(outputSchema === undefined
      ? {}
      : { validateOutput: (value: JsonValue) => outputSchema.validate(value, 'value') }),
    describeSource: () => ({
      origin: executor.kind === 'mcp' ? 'mcp' : origin,
      executor: { ...executor.describe(), kind: executor.kind }
    }),
    async execute(args, exec) {
      const deadlineAt = timeoutMs === undefined ? undefined : Date.now() + timeoutMs
      const violations = await argumentViolations(parameters, args)
      if (violations.length > 0) throw new ToolArgsError(violations)
      const { callId, token, agent, signal, progress } = exec
      const answer = await executor.run({
        callId,
        token,
        name,
        arguments: args,
        scope: agent?.scope.id ?? 'global',
        ...(agent === undefined ? {} : { session: agent.id }),
        signal,
        ...(deadlineAt === undefined ? {} : { deadlineAt }),
        isIdempotent: idempotent === true,
        progress
      })
      content.keep(exec, answer)
      return answer.value
    },
    finalizeContent: (exec, result) => content.apply(exec, result)
  }
}

const argumentViolations = (parameters: WireSchema, args: JsonValue): Promise<string[]> => parameters.validate(args, '')

/** A text is shown as it is, all else as indented JSON (api.md §3). */
const renderValue = (value: JsonValue): ContentBlock[] => [
  { type: 'text', text: typeof value === 'string' ? value : indentedJson(value) }
]

/** Fields come from clients, storage and configuration alike, so no schema of a route is relied on. */
function assertFields({ name, description, parameters, output, timeoutMs, ...rest }: WireToolFields): void {
  if (typeof name !== 'string' || !toolNamePattern.test(name)) {
    throw invalid(`"name" must match ${toolNamePattern.source}.`)
  }
  if (name === transportName) throw invalid(`"name" may not be "${name}", which is reserved for programs.`)
  if (typeof description !== 'string') throw invalid('"description" must be a string.')
  if (!isRecord(parameters) || ownValue(parameters, 'type') !== 'object') {
    throw invalid('"parameters.type" must be "object": arguments are named.')
  }
  if (output !== undefined && !isRecord(output)) throw invalid('"output" must be an object.')
  if (timeoutMs !== undefined && !isTimeout(timeoutMs)) {
    throw invalid(`"timeoutMs" must be a positive number of at most ${maxTimeoutMs}.`)
  }
  const { concurrency, idempotent } = rest
  if (concurrency !== undefined && concurrency !== 'parallel' && concurrency !== 'exclusive') {
    throw invalid('"concurrency" must be "parallel" or "exclusive".')
  }
  if (idempotent !== undefined && typeof idempotent !== 'boolean') throw invalid('"idempotent" must be a boolean.')
}

const invalid = (message: string): RequestError => new RequestError('INVALID_DEFINITION', message)

const isRecord = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
