import { isLosslessJson, type JsonObject, type JsonValue } from '../../json/lossless.ts'
import { stringifyJson } from '../../json/serialize.ts'
import { collectNodes, expandedSize } from '../../schema/ajv-nodes.ts'
import { McpBridgeError } from './bridge-error.ts'

/** A tool as its server lists it, known to keep to the limits. */
export interface RawTool {
  readonly name: string
  readonly description: string
  readonly inputSchema: JsonObject
  readonly outputSchema?: JsonObject
  /** Calls of it must run as tasks, which this client does not do. */
  readonly needsTask: boolean
}

/** What one server may list. */
export interface ListLimits {
  readonly maxTools: number
  /** Of one schema, and of one description, as JSON text. */
  readonly maxSchemaBytes: number
}

const maxNameLength = 1_024
const maxSchemaDepth = 64
/** Nodes of a schema with its references written out: what reads it for a model or a program follows them. */
const maxExpanded = 10_000

/** Takes one entry of a list. Throws `MCP_INVALID_LIST`: a list with a tool that cannot be taken is not taken at all (backends.md §10). */
export function readTool(entry: unknown, { maxSchemaBytes }: ListLimits): RawTool {
  if (!isObject(entry)) throw invalid('an entry is no object')
  const { name, description = '', inputSchema, outputSchema, execution } = entry
  if (typeof name !== 'string' || name === '' || name.length > maxNameLength) {
    throw invalid(`a tool has no name of 1 to ${maxNameLength} characters`)
  }
  const label = `tool ${JSON.stringify(name.slice(0, 100))}`
  if (typeof description !== 'string') throw invalid(`${label}: its description is no text`)
  if (Buffer.byteLength(description) > maxSchemaBytes) throw invalid(`${label}: its description is too long`)
  const output =
    outputSchema === undefined ? undefined : readSchema(outputSchema, `${label}: outputSchema`, maxSchemaBytes)
  return {
    name,
    description,
    inputSchema: readSchema(inputSchema, `${label}: inputSchema`, maxSchemaBytes),
    ...(output === undefined ? {} : { outputSchema: output }),
    needsTask: isObject(execution) && execution['taskSupport'] === 'required'
  }
}

/** The limits of reliability.md §1.6 that matter for a schema which is shown and not compiled: its server is the judge of arguments. */
function readSchema(schema: unknown, label: string, maxBytes: number): JsonObject {
  if (!isObject(schema) || !isLosslessJson(schema)) throw invalid(`${label} is no JSON object`)
  const { type } = schema
  if (type !== undefined && type !== 'object') throw invalid(`${label} is not of type "object"`)
  if (exceedsDepth(schema, maxSchemaDepth)) throw invalid(`${label} nests deeper than ${maxSchemaDepth} levels`)
  if (Buffer.byteLength(stringifyJson(schema)) > maxBytes) throw invalid(`${label} is larger than ${maxBytes} bytes`)
  if (expands(schema, label))
    throw invalid(`${label} has more than ${maxExpanded} nodes once its references are written out`)
  return type === undefined ? { type: 'object', ...schema } : schema
}

function expands(schema: JsonObject, label: string): boolean {
  const nodes = collectNodes(schema, (_trail, text) => {
    throw invalid(`${label} ${text}`)
  })
  return expandedSize(nodes) > maxExpanded
}

/** Whether a value nests deeper than so many levels. Iterative. */
export function exceedsDepth(value: JsonValue, limit: number): boolean {
  let level: JsonValue[] = [value]
  for (let depth = 0; depth < limit; depth += 1) {
    level = level.flatMap((item) => (typeof item === 'object' && item !== null ? Object.values(item) : []))
    level = level.filter((item) => typeof item === 'object' && item !== null)
    if (level.length === 0) return false
  }
  return true
}

const invalid = (message: string): McpBridgeError =>
  new McpBridgeError('MCP_INVALID_LIST', `the list of tools is not taken: ${message}`)

const isObject = (value: unknown): value is JsonObject =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
