import type { JsonValue } from '../json/lossless.ts'
import type { Execution, RunContext } from '../pipeline/execution.ts'
import type { ToolResult } from '../pipeline/result.ts'
import { compileParameters, compileValue } from '../schema/compile.ts'
import type { InferParameters, InferValue } from '../schema/infer.ts'
import type { ParameterMap, ValueSpec } from '../schema/spec.ts'
import { validateValue } from '../schema/validate.ts'
import { ToolArgsError } from '../tools/args-error.ts'
import type { CallCard, ContentBlock, PresentedResult, ResultCard, ToolDefinition } from '../tools/definition.ts'
import { isTimeout, maxTimeoutMs } from '../tools/snapshot-definition.ts'

/** What an author writes (core.md §5): the members of a `ToolDefinition`, with arguments and value typed by their specs. */
export interface ToolSpec<Parameters extends ParameterMap, Value extends ValueSpec> {
  name: string
  description: string
  parameters: Parameters
  output: {
    schema: Value
    render(args: InferParameters<Parameters>, value: InferValue<Value>): ContentBlock[]
    presentationMeta?(args: InferParameters<Parameters>, value: InferValue<Value>): JsonValue
  }
  execute(args: InferParameters<Parameters>, exec: RunContext): InferValue<Value> | Promise<InferValue<Value>>
  /** Sees every outcome of its calls, those with invalid arguments too (core.md §5.5). */
  finalizeContent?(exec: Execution, result: ToolResult): ContentBlock[] | undefined
  timeoutMs?: number
  isConcurrencySafe?(args: InferParameters<Parameters>): boolean
  idempotent?: boolean
  presentCall?(args: InferParameters<Parameters>): CallCard | undefined
  presentResult?(args: InferParameters<Parameters>, result: PresentedResult): ResultCard | undefined
}

/**
 * Makes a definition whose arguments are validated before they reach the author's functions: the body throws `ToolArgsError`,
 * `isConcurrencySafe` answers false, presenters answer undefined (core.md §5). Throws at once: `JsonSchemaError` for a bad
 * spec, `Error` for a bad `timeoutMs`. Defaults are not applied, and members beyond `parameters` are allowed.
 */
export function defineTool<const Parameters extends ParameterMap, const Value extends ValueSpec>(
  spec: ToolSpec<Parameters, Value>
): ToolDefinition {
  type Args = InferParameters<Parameters>
  const { name, description, output, timeoutMs, idempotent } = spec
  const parameters = compileParameters(spec.parameters)
  const schema = compileValue(output.schema)
  if (timeoutMs !== undefined && !isTimeout(timeoutMs)) {
    throw new Error(`tool ${JSON.stringify(name)}: timeoutMs must be a positive number of at most ${maxTimeoutMs}`)
  }
  const validateArguments = (args: JsonValue): string[] => validateValue(parameters, args, '')
  /** Runs the author's function only on arguments that are what it was promised. */
  const checked = <Result>(args: JsonValue, run: (args: Args) => Result, otherwise: Result): Result =>
    validateArguments(args).length > 0 ? otherwise : run(args as Args)

  return {
    name,
    description,
    parameters,
    validateArguments,
    output: {
      schema,
      render: (args, value) => output.render(args as Args, value as InferValue<Value>),
      ...(output.presentationMeta && {
        presentationMeta: (args, value) =>
          output.presentationMeta?.(args as Args, value as InferValue<Value>) as JsonValue
      })
    },
    execute(args, exec) {
      const violations = validateArguments(args)
      if (violations.length > 0) throw new ToolArgsError(violations)
      return spec.execute(args as Args, exec)
    },
    ...(timeoutMs !== undefined && { timeoutMs }),
    ...(idempotent !== undefined && { idempotent }),
    ...(spec.finalizeContent && { finalizeContent: (exec, result) => spec.finalizeContent?.(exec, result) }),
    ...(spec.isConcurrencySafe && {
      isConcurrencySafe: (args) => checked(args, (typed) => spec.isConcurrencySafe?.(typed), false) as boolean
    }),
    ...(spec.presentCall && {
      presentCall: (args) => checked(args, (typed) => spec.presentCall?.(typed), undefined)
    }),
    ...(spec.presentResult && {
      presentResult: (args, result) => checked(args, (typed) => spec.presentResult?.(typed, result), undefined)
    })
  }
}
