import { isJsonObject, type JsonObject, type JsonValue } from '../../json/lossless.ts'
import { setOwn } from '../../json/plain.ts'
import type { SchemaLowering } from './lower-schema.ts'
import type { Operation } from './operations.ts'
import { entriesOf, LeftOut, member, quoted, type References } from './references.ts'
import type { ParameterMapping, RequestMapping } from './request-mapping.ts'

const places = ['path', 'query', 'header', 'cookie'] as const

/** Headers that the request has of its own accord, or that would change how it is read (RFC 9110 §7.6.1); OpenAPI has the first three ignored. */
const reservedHeaders =
  /^(accept|content-type|authorization|accept-encoding|connection|content-length|content-encoding|cookie|expect|host|keep-alive|te|trailer|transfer-encoding|upgrade|user-agent|proxy-.*|x-toolwright-.*)$/i
const token = /^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/

/** What an operation takes: the schema of its arguments, and where each of them goes. */
export interface Arguments {
  readonly schema: JsonObject
  readonly parameters: readonly ParameterMapping[]
  readonly body: RequestMapping['body']
  readonly hasPatterns: boolean
}

interface Given extends Omit<ParameterMapping, 'argument'> {
  readonly schema: JsonValue
  readonly description: string | undefined
  readonly isRequired: boolean
}

/**
 * The parameters and the body of an operation as one closed object: each under its own name, with `_query` or so behind it where that
 * is taken, the body as `body`. Throws `LeftOut` when it cannot be called without something that cannot be sent; `note` hears of what is
 * left out of it.
 */
export function argumentsOf(
  operation: Operation,
  { references, lowering, note }: { references: References; lowering: SchemaLowering; note: (text: string) => void }
): Arguments {
  const properties: JsonObject = {}
  const required: string[] = []
  const parameters: ParameterMapping[] = []
  for (const { schema, description, isRequired, ...place } of parametersOf(operation, references, note)) {
    const argument = freeName(properties, place.name, place.in)
    const lowered = lowering.lower(schema)
    setOwn(properties, argument, described(lowered, description))
    if (isRequired) required.push(argument)
    parameters.push({ argument, ...place })
  }
  assertPathIsFilled(operation, parameters)
  const body = bodyOf(operation, references, note)
  let mapping: RequestMapping['body']
  if (body !== undefined) {
    const argument = freeName(properties, 'body', 'content')
    setOwn(properties, argument, described(lowering.lower(body.schema), body.description))
    if (body.isRequired) required.push(argument)
    mapping = { argument, contentType: body.contentType }
  }
  const schema: JsonObject = {
    type: 'object',
    properties,
    ...(required.length > 0 && { required }),
    additionalProperties: false,
    ...lowering.definitions
  }
  return { schema, parameters, body: mapping, hasPatterns: JSON.stringify(schema).includes('"pattern') }
}

function parametersOf(operation: Operation, references: References, note: (text: string) => void): Given[] {
  const own = member(operation.given, 'parameters')
  const merged = new Map<string, Given | undefined>()
  for (const each of [...operation.pathParameters, ...(Array.isArray(own) ? own : [])]) {
    const parameter = references.object(each, 'a parameter')
    const name = member(parameter, 'name')
    const place = member(parameter, 'in')
    if (typeof name !== 'string' || name === '' || !isPlace(place))
      throw new LeftOut('has a parameter without name or place')
    // The operation's own stands in for the path's.
    merged.set(`${place} ${name}`, readParameter(parameter, name, place, references, note))
  }
  return [...merged.values()].filter((parameter) => parameter !== undefined)
}

const isPlace = (value: JsonValue | undefined): value is ParameterMapping['in'] =>
  places.some((place) => place === value)

function readParameter(
  parameter: JsonObject,
  name: string,
  place: ParameterMapping['in'],
  references: References,
  note: (text: string) => void
): Given | undefined {
  const isRequired = place === 'path' || member(parameter, 'required') === true
  const leaveOut = (reason: string): undefined => {
    if (isRequired) throw new LeftOut(`needs the ${place} parameter ${quoted(name)}, which ${reason}`)
    note(`the ${place} parameter ${quoted(name)} is left out: it ${reason}`)
  }
  if (place === 'header' && reservedHeaders.test(name)) {
    // What OpenAPI says is ignored, and what credentials are for, is not missed.
    note(`the header ${quoted(name)} is left out: it is not for tools to set`)
    return undefined
  }
  if ((place === 'header' || place === 'cookie') && !token.test(name)) return leaveOut('has a name that cannot be sent')
  const description = member(parameter, 'description')
  const about = { name, in: place, description: typeof description === 'string' ? description : undefined, isRequired }
  const [content] = entriesOf(member(parameter, 'content'))
  if (content !== undefined) {
    const [type, media] = content
    if (!isJsonType(type)) return leaveOut(`is ${quoted(type)}, not JSON`)
    return {
      ...about,
      style: 'json',
      explode: false,
      schema: isJsonObject(media) ? (member(media, 'schema') ?? {}) : {}
    }
  }
  const style = member(parameter, 'style') ?? (place === 'query' || place === 'cookie' ? 'form' : 'simple')
  if (!isStyle(style, place))
    return leaveOut(`has the style ${JSON.stringify(style).slice(0, 100)}, which is not supported`)
  const explode = member(parameter, 'explode') ?? style === 'form'
  references.object(member(parameter, 'schema') ?? {}, 'a parameter schema')
  return { ...about, style, explode: explode === true, schema: member(parameter, 'schema') ?? {} }
}

function isStyle(style: JsonValue, place: ParameterMapping['in']): style is ParameterMapping['style'] {
  if (place === 'query') return ['form', 'spaceDelimited', 'pipeDelimited', 'deepObject'].includes(style as string)
  return style === (place === 'cookie' ? 'form' : 'simple')
}

function assertPathIsFilled({ path }: Operation, parameters: readonly ParameterMapping[]): void {
  for (const [, name = ''] of path.matchAll(/\{([^{}]*)\}/g)) {
    if (parameters.some((parameter) => parameter.in === 'path' && parameter.name === name)) continue
    throw new LeftOut(`names ${quoted(name)} in its path, which is no parameter of it`)
  }
}

interface Body {
  readonly schema: JsonValue
  readonly description: string | undefined
  readonly isRequired: boolean
  readonly contentType: string
}

function bodyOf({ given, method }: Operation, references: References, note: (text: string) => void): Body | undefined {
  const stated = member(given, 'requestBody')
  if (stated === undefined) return undefined
  const requestBody = references.object(stated, 'a request body')
  const isRequired = member(requestBody, 'required') === true
  if (method === 'GET' || method === 'HEAD') {
    note('its body is left out: requests of its method have none')
    return undefined
  }
  const types = entriesOf(member(requestBody, 'content'))
  const json = types.find(([type]) => isJsonType(type))
  if (json === undefined) {
    const told = types.map(([type]) => type).join(', ')
    if (isRequired) throw new LeftOut(`needs a body of ${quoted(told)}, which is not JSON`)
    note(`its body is left out: it is ${quoted(told)}, not JSON`)
    return undefined
  }
  const [type, media] = json
  const description = member(requestBody, 'description')
  return {
    schema: isJsonObject(media) ? (member(media, 'schema') ?? {}) : {},
    description: typeof description === 'string' ? description : undefined,
    isRequired,
    contentType: type.split(';', 1)[0]?.trim() === '*/*' ? 'application/json' : type
  }
}

/** `application/json`, `application/…+json`; and what takes anything. */
export function isJsonType(type: string): boolean {
  return /^(application\/([\w.!#$&^-]+\+)?json|\*\/\*|application\/\*)\s*(;[\x20-\x7e]*)?$/i.test(type.trim())
}

function freeName(properties: JsonObject, name: string, place: string): string {
  let free = name
  for (let count = 1; Object.hasOwn(properties, free); count += 1) {
    free = count === 1 ? `${name}_${place}` : `${name}_${place}_${count}`
  }
  return free
}

/** What the parameter says of itself outranks what its schema says. */
function described(schema: JsonValue, description: string | undefined): JsonValue {
  if (description === undefined || description === '') return schema
  if (schema === true) return { description: description.slice(0, 1_000) }
  return isJsonObject(schema) ? { ...schema, description: description.slice(0, 1_000) } : schema
}
