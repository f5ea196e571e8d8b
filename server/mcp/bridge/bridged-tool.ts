import type { JsonObject, JsonValue } from '../../json/lossless.ts'
import { stringifyJson } from '../../json/serialize.ts'
import type { RunContext } from '../../pipeline/execution.ts'
import type { PinnedDefinition } from '../../registrations/definition-drift.ts'
import type { JsonSchema } from '../../schema/spec.ts'
import { assertSupportedSchema } from '../../schema/supported.ts'
import type { ToolDefinition } from '../../tools/definition.ts'
import { publicName } from '../names.ts'
import { McpBridgeError } from './bridge-error.ts'
import { projection } from './projection.ts'
import type { RawTool } from './raw-tool.ts'

/** What a bridged tool is, and what it is held to when its list is read again. */
export interface BridgedTool {
  readonly publicName: string
  readonly raw: RawTool
  readonly pinned: PinnedDefinition
}

/** Calls the tool on its server; resolves to the result as the server gave it. */
export type CallServer = (tool: BridgedTool, args: JsonObject, exec: RunContext) => Promise<JsonObject>

export function bridgedTool(server: string, raw: RawTool): BridgedTool {
  const { description, inputSchema: parameters, outputSchema: output } = raw
  const pinned = { description, parameters, ...(output === undefined ? {} : { output }) }
  return { publicName: publicName(server, raw.name), raw, pinned }
}

/**
 * The definition to register (backends.md §10): exclusive, without a deadline of its own and without cards. Its arguments are not
 * checked here: the server is the judge.
 */
export function toolDefinition(server: string, tool: BridgedTool, call: CallServer): ToolDefinition {
  const { raw, publicName: name } = tool
  return {
    name,
    description: raw.description,
    parameters: raw.inputSchema,
    output: {
      schema: valueSchema(raw.outputSchema),
      render: (_args, value) => [{ type: 'text', text: projection((value as { content: JsonValue[] }).content) }]
    },
    describeSource: () => ({ origin: 'mcp', executor: { kind: 'mcp', server, tool: raw.name } }),
    async execute(args, exec) {
      if (raw.needsTask) {
        const message = `the tool ${JSON.stringify(raw.name)} only runs as a task, which is not supported`
        throw new McpBridgeError('MCP_TASK_REQUIRED', message, { effect: 'none' })
      }
      const given = typeof args === 'object' && args !== null && !Array.isArray(args) ? args : {}
      return valueOf(await call(tool, given, exec))
    }
  }
}

/** `structuredContent` is held to the output schema, and must be there, if the schema is one that is enforced (core.md §3). */
function valueSchema(outputSchema: JsonObject | undefined): JsonSchema {
  const structured = outputSchema === undefined ? undefined : enforceable(outputSchema)
  return {
    type: 'object',
    properties: { content: { type: 'array' }, structuredContent: structured ?? {} },
    required: structured === undefined ? ['content'] : ['content', 'structuredContent'],
    additionalProperties: false
  }
}

/** Nearly every server names the dialect at the root, which constrains nothing. */
function enforceable({ $schema: _dialect, ...schema }: JsonObject): JsonSchema | undefined {
  try {
    assertSupportedSchema(schema)
    return schema
  } catch {
    return undefined
  }
}

/** Throws for a result by which the tool says that it failed, and for one that is none. */
function valueOf(result: JsonObject): JsonValue {
  const { content, structuredContent, isError, toolResult } = result
  if (content === undefined && toolResult !== undefined) {
    return { content: [{ type: 'text', text: stringifyJson(toolResult) }] }
  }
  if (content !== undefined && !Array.isArray(content))
    throw new McpBridgeError('MCP_ERROR', 'the MCP server: content is no list')
  if (content === undefined && structuredContent === undefined) {
    throw new McpBridgeError('MCP_ERROR', 'the MCP server: its result has no content')
  }
  const blocks = content ?? []
  if (isError === true) throw new McpBridgeError('MCP_TOOL_FAILED', projection(blocks))
  return { content: blocks, ...(structuredContent === undefined ? {} : { structuredContent }) }
}
