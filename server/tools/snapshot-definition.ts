import { deepFreeze } from '../json/deep-freeze.ts'
import { isJsonObject, type JsonObject, type JsonValue, snapshot } from '../json/lossless.ts'
import { assertSupportedSchema } from '../schema/supported.ts'
import type { OutputContract, ToolDefinition } from './definition.ts'
import { toolNamePattern } from './reserved-names.js'

/** The longest delay that Node's timers take; a longer one would fire after 1 ms (core.md §18.6). */
export const maxTimeoutMs = 2 ** 31 - 1

const callbacks = [
  'finalizeContent',
  'isConcurrencySafe',
  'presentCall',
  'presentResult',
  'validateArguments',
  'validateOutput',
  'describeSource'
] as const

/**
 * Checks a definition in the order of core.md §6.1 (rows 1 to 3), then by the rules of §6.2, and gives the frozen copy that is
 * registered: every member is read once, declarative parts are detached, functions stay bound to the author's object. Throws
 * `TypeError` naming the tool, or `JsonSchemaError` for an output schema outside the supported subset.
 */
export function snapshotDefinition(given: ToolDefinition): ToolDefinition {
  if (!isObject(given)) throw new TypeError('a tool definition must be an object')
  // oxlint-disable-next-line typescript/unbound-method -- each member is read once, and bound below
  const { name, description, parameters, output, execute, timeoutMs, idempotent } = given
  const optional = callbacks.map((key) => [key, given[key]] as const)
  const label = typeof name === 'string' ? `tool ${JSON.stringify(name)}` : 'a tool'

  const hasValidator = optional.some(([key, callback]) => key === 'validateOutput' && callback !== undefined)
  const contract = outputContract(label, output, hasValidator)
  if (timeoutMs !== undefined && !isTimeout(timeoutMs)) {
    throw new TypeError(`${label}: timeoutMs must be a positive number of at most ${maxTimeoutMs}`)
  }
  if (typeof name !== 'string' || !toolNamePattern.test(name)) {
    throw new TypeError(`${label}: the name must match ${toolNamePattern.source}`)
  }
  if (typeof description !== 'string') throw new TypeError(`${label}: the description must be a string`)
  const frozenParameters = parameterSchema(label, parameters)
  if (typeof execute !== 'function') throw new TypeError(`${label}: execute must be a function`)
  if (idempotent !== undefined && typeof idempotent !== 'boolean') {
    throw new TypeError(`${label}: idempotent must be a boolean`)
  }
  const bound: Record<string, unknown> = {}
  for (const [key, callback] of optional) {
    if (callback === undefined) continue
    if (typeof callback !== 'function') throw new TypeError(`${label}: ${key} must be a function`)
    bound[key] = callback.bind(given)
  }
  return Object.freeze({
    name,
    description,
    parameters: frozenParameters,
    output: contract,
    execute: execute.bind(given),
    ...(timeoutMs === undefined ? {} : { timeoutMs }),
    ...(idempotent === undefined ? {} : { idempotent }),
    ...bound
  })
}

export const isTimeout = (value: unknown): value is number =>
  typeof value === 'number' && value > 0 && value <= maxTimeoutMs

function outputContract(label: string, output: OutputContract, hasValidator: boolean): OutputContract {
  if (!isObject(output)) throw new TypeError(`${label}: output must be an object with a schema and a render function`)
  // oxlint-disable-next-line typescript/unbound-method -- each member is read once, and bound below
  const { schema, render, presentationMeta } = output
  if (typeof render !== 'function') throw new TypeError(`${label}: output.render must be a function`)
  if (presentationMeta !== undefined && typeof presentationMeta !== 'function') {
    throw new TypeError(`${label}: output.presentationMeta must be a function`)
  }
  return Object.freeze({
    schema: hasValidator ? foreignSchema(label, schema) : supportedSchema(label, schema),
    render: render.bind(output),
    ...(presentationMeta === undefined ? {} : { presentationMeta: presentationMeta.bind(output) })
  })
}

/** The copy is what is checked: a getter cannot show one schema to the check and another to validation. */
function supportedSchema(label: string, schema: unknown): JsonObject {
  let copy: JsonValue
  try {
    copy = snapshot(schema)
  } catch (error) {
    assertSupportedSchema(schema)
    throw new TypeError(`${label}: output.schema must be lossless JSON`, { cause: error })
  }
  assertSupportedSchema(copy)
  return deepFreeze(copy)
}

/** A schema that `validateOutput` stands in for only has to be a JSON object (api.md §3). */
function foreignSchema(label: string, schema: unknown): JsonObject {
  const copy = losslessCopy(label, 'output.schema', schema)
  if (!isJsonObject(copy)) throw new TypeError(`${label}: output.schema must be an object`)
  return deepFreeze(copy)
}

function parameterSchema(label: string, parameters: unknown): JsonObject {
  const copy = losslessCopy(label, 'parameters', parameters)
  if (!isJsonObject(copy) || !Object.hasOwn(copy, 'type') || copy.type !== 'object') {
    throw new TypeError(`${label}: parameters must be a JSON Schema of type "object"`)
  }
  return deepFreeze(copy)
}

function losslessCopy(label: string, member: string, value: unknown): JsonValue {
  try {
    return snapshot(value)
  } catch (error) {
    throw new TypeError(`${label}: ${member} must be lossless JSON`, { cause: error })
  }
}

const isObject = (value: unknown): value is object => typeof value === 'object' && value !== null
