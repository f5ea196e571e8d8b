import { RequestError } from '../errors.ts'
import { ownValue } from '../json/plain.ts'
import type { ToolDefinition } from '../tools/definition.ts'
import type { Mode, PromptSection } from '../tools/presentation.ts'
import { transportName } from '../tools/reserved-names.js'
import { renderPythonSdk } from './sdk-python.ts'
import type { SdkTool } from './sdk-tool.ts'
import { renderTypescriptSdk } from './sdk-typescript.ts'

/** Writes the whole text of the section `tools:sdk` for a set of tools. */
export type SdkRenderer = (tools: readonly SdkTool[]) => string

const renderers = { typescript: renderTypescriptSdk, python: renderPythonSdk } satisfies Record<string, SdkRenderer>

/** The languages that programs can be told of in. */
export const sdkLanguages: readonly string[] = Object.keys(renderers)

/** The renderer for a runtime's language; a language without one is `CODE_RUNTIME_MISSING`, and the message names those that have. */
export function sdkRenderer(language: string): SdkRenderer {
  const renderer = ownValue(renderers, language) as SdkRenderer | undefined
  if (renderer !== undefined) return renderer
  throw new RequestError(
    'CODE_RUNTIME_MISSING',
    `The code runtime speaks "${language}", and tools can be described in ${sdkLanguages.join(', ')} only.`
  )
}

// Before the texts of single tools (100 to 199), so that a model meets the rule first (code-mode.md §3).
const codeOnlyOrder = 99
const sdkOrder = 150
const codeOnlyRule =
  `Only \`${transportName}\` may be called directly: reach every other tool from inside a program that you give to it. ` +
  'A direct call of another tool is refused.'

/**
 * What code mode adds to a prompt (code-mode.md §3): nothing under `native`, else the rule `tools:code-only`, whose text is empty under
 * `both`, where it would be false, and the declarations `tools:sdk`. `tools` are those that the scope sees, in any order;
 * `language` is the mounted runtime's, undefined if there is none, which fails as `CODE_RUNTIME_MISSING` and names the mode.
 */
export function sdkSections({
  mode,
  language,
  tools
}: {
  mode: Mode
  language: string | undefined
  tools: readonly ToolDefinition[]
}): PromptSection[] {
  if (mode === 'native') return []
  if (language === undefined) {
    throw new RequestError(
      'CODE_RUNTIME_MISSING',
      `Tools are presented as "${mode}", which needs a code runtime, and none is mounted.`
    )
  }
  return [
    { name: 'tools:code-only', order: codeOnlyOrder, text: mode === 'code' ? codeOnlyRule : '' },
    { name: 'tools:sdk', order: sdkOrder, text: sdkRenderer(language)(tools.map(sdkTool)) }
  ]
}

function sdkTool(tool: ToolDefinition): SdkTool {
  const { name, description, parameters, output } = tool
  // Wire tools bring a validator of their own; MCP tools are known by their names (backends.md §10).
  const isWired = tool.validateOutput !== undefined || tool.describeSource !== undefined
  const foreign = isWired || name.startsWith('mcp__')
  return { name, description, parameters, output: output.schema, foreign }
}
