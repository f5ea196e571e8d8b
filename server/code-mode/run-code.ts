import type { CodeRuntime } from '../code-runtime/code-runtime.ts'
import type { JsonValue } from '../json/lossless.ts'
import type { RunContext } from '../pipeline/execution.ts'
import { compileParameters, compileValue } from '../schema/compile.ts'
import type { JsonSchema } from '../schema/spec.ts'
import { validateValue } from '../schema/validate.ts'
import { ToolArgsError } from '../tools/args-error.ts'
import type { ToolDefinition } from '../tools/definition.ts'
import { transportName } from '../tools/reserved-names.js'
import { type BridgeParts, runProgram } from './bridge.ts'
import { renderRunOutput, type RunOutput } from './render-output.ts'
import { runCodeTexts } from './run-code-texts.ts'
import { CodeRunFailedError } from './run-failure.ts'

/** The runtime as `run_code` needs it. A language that nothing is known of is refused when its texts are read. */
export interface MountedRuntime extends Pick<CodeRuntime, 'run'> {
  readonly language: string
}

export interface RunCodeParts extends BridgeParts {
  /** The mounted runtime, asked for anew each time; undefined if there is none. */
  runtime: () => MountedRuntime | undefined
}

interface RunCodeArguments {
  code: string
  description: string
}

const parametersOf = (code: string): JsonSchema =>
  compileParameters({
    code: { type: 'string', required: true, description: code },
    description: { type: 'string', required: true, description: 'A short label that says what the program does.' }
  })

const outputSchema = compileValue({
  type: 'object',
  properties: { logs: { type: 'array', items: { type: 'string' }, required: true }, result: { type: 'json' } },
  additionalProperties: false
})

/**
 * The transport (code-mode.md §2): the reserved tool through which programs come. What its schema says in words is decided when it
 * is read, as the runtime may come and go. It declares nothing about concurrency, so it is exclusive, and no deadline: its
 * limits are the runtime's budgets. A failed run is `CODE_RUN_FAILED`.
 */
export function createRunCode(parts: RunCodeParts): ToolDefinition {
  const shape = parametersOf('')
  const validateArguments = (args: JsonValue): string[] => validateValue(shape, args, '')
  return Object.freeze<ToolDefinition>({
    name: transportName,
    get description() {
      return runCodeTexts(parts.runtime()?.language).description
    },
    get parameters() {
      return parametersOf(runCodeTexts(parts.runtime()?.language).code)
    },
    output: {
      schema: outputSchema,
      render: (_args, value) => renderRunOutput(value as unknown as RunOutput)
    },
    validateArguments,
    async execute(args, exec) {
      const violations = validateArguments(args)
      if (violations.length > 0) throw new ToolArgsError(violations)
      return runCode(parts, args as unknown as RunCodeArguments, exec)
    },
    presentCall(args) {
      if (validateArguments(args).length > 0) return undefined
      const { code, description } = args as unknown as RunCodeArguments
      return { card: 'generic', title: description, kind: 'execute', rawInput: code }
    }
  })
}

async function runCode(
  parts: RunCodeParts,
  { code, description }: RunCodeArguments,
  exec: RunContext
): Promise<RunOutput> {
  if (description.trim() === '') throw new Error('run_code needs a description that says what the program does')
  const runtime = parts.runtime()
  if (runtime === undefined) throw new Error('the program cannot run: no code runtime is mounted')
  const { value, logs, error } = await runProgram(parts, exec, (request) => runtime.run(request), code)
  if (error !== undefined) throw new CodeRunFailedError(error.kind, error.message, logs)
  return value === undefined ? { logs } : { logs, result: value }
}
