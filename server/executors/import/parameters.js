import { entriesOf, isObject, LeftOut, member, quoted } from './references.js'

/**
 * @import { JsonObject, JsonValue } from '../../json/lossless.ts'
 * @import { Arguments, Operation } from './import-job.ts'
 * @import { SchemaLowering } from './lower-schema.js'
 * @import { References } from './references.js'
 * @import { ParameterMapping, RequestMapping } from './request-mapping.ts'
 * @typedef {Omit<ParameterMapping, 'argument'> & { schema: JsonValue, description: string | undefined, isRequired: boolean }} Given
 * @typedef {{ schema: JsonValue, description: string | undefined, isRequired: boolean, contentType: string }} Body
 * @typedef {(text: string) => void} Note
 */

const places = /** @type {const} */ (['path', 'query', 'header', 'cookie'])
/** More than a schema may have parts: they would be refused in the end. */
const maxParameters = 2_000

/** Headers that the request has of its own accord, or that would change how it is read (RFC 9110 §7.6.1); OpenAPI has the first three ignored. */
const reservedHeaders =
  /^(accept|content-type|authorization|accept-encoding|connection|content-length|content-encoding|cookie|expect|host|keep-alive|te|trailer|transfer-encoding|upgrade|user-agent|proxy-.*|x-toolwright-.*)$/i
const token = /^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/

/**
 * The parameters and the body of an operation as one closed object: each under its own name, with `_query` or so behind it where that
 * is taken, the body as `body`. Throws `LeftOut` when it cannot be called without something that cannot be sent; `note` hears of what is
 * left out of it.
 * @param {Operation} operation @param {{ references: References, lowering: SchemaLowering, note: Note }} parts
 * @returns {Arguments}
 */
export function argumentsOf(operation, { references, lowering, note }) {
  /** @type {Map<string, JsonValue>} */
  const properties = new Map()
  /** @type {string[]} */
  const required = []
  /** @type {ParameterMapping[]} */
  const parameters = []
  for (const { schema, description, isRequired, ...place } of parametersOf(operation, references, note)) {
    const argument = freeName(properties, place.name, place.in)
    const lowered = lowering.lower(schema)
    properties.set(argument, described(lowered, description))
    if (isRequired) required.push(argument)
    parameters.push({ argument, ...place })
  }
  assertPathIsFilled(operation, parameters)
  const body = bodyOf(operation, references, note)
  /** @type {RequestMapping['body']} */
  let mapping
  if (body !== undefined) {
    const argument = freeName(properties, 'body', 'content')
    properties.set(argument, described(lowering.lower(body.schema), body.description))
    if (body.isRequired) required.push(argument)
    mapping = { argument, contentType: body.contentType }
  }
  /** @type {JsonObject} */
  const schema = {
    type: 'object',
    properties: Object.fromEntries(properties),
    ...(required.length > 0 && { required }),
    additionalProperties: false,
    ...lowering.definitions
  }
  return { schema, parameters, body: mapping, hasPatterns: JSON.stringify(schema).includes('"pattern') }
}

/** @param {Operation} operation @param {References} references @param {Note} note */
function parametersOf(operation, references, note) {
  const own = member(operation.given, 'parameters')
  /** @type {Map<string, Given | undefined>} */
  const merged = new Map()
  for (const each of [...operation.pathParameters, ...(Array.isArray(own) ? own : [])]) {
    const parameter = references.object(each, 'a parameter')
    const name = member(parameter, 'name')
    const place = member(parameter, 'in')
    if (typeof name !== 'string' || name === '' || !isPlace(place))
      throw new LeftOut('has a parameter without name or place')
    // The operation's own stands in for the path's.
    merged.set(`${place} ${name}`, readParameter(parameter, name, place, references, note))
    if (merged.size > maxParameters) throw new LeftOut(`has more than ${maxParameters} parameters`)
  }
  return [...merged.values()].filter((parameter) => parameter !== undefined)
}

/** @param {JsonValue | undefined} value @returns {value is ParameterMapping['in']} */
const isPlace = (value) => places.some((place) => place === value)

/**
 * @param {JsonObject} parameter @param {string} name @param {ParameterMapping['in']} place @param {References} references
 * @param {Note} note @returns {Given | undefined}
 */
function readParameter(parameter, name, place, references, note) {
  const isRequired = place === 'path' || member(parameter, 'required') === true
  /** @param {string} reason @returns {undefined} */
  const leaveOut = (reason) => {
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
      schema: isObject(media) ? (member(media, 'schema') ?? {}) : {}
    }
  }
  const style = member(parameter, 'style') ?? (place === 'query' || place === 'cookie' ? 'form' : 'simple')
  if (!isStyle(style, place))
    return leaveOut(`has the style ${JSON.stringify(style).slice(0, 100)}, which is not supported`)
  const explode = member(parameter, 'explode') ?? style === 'form'
  references.object(member(parameter, 'schema') ?? {}, 'a parameter schema')
  return { ...about, style, explode: explode === true, schema: member(parameter, 'schema') ?? {} }
}

/** @param {JsonValue} style @param {ParameterMapping['in']} place @returns {style is ParameterMapping['style']} */
function isStyle(style, place) {
  if (place === 'query') return ['form', 'spaceDelimited', 'pipeDelimited', 'deepObject'].some((one) => one === style)
  return style === (place === 'cookie' ? 'form' : 'simple')
}

/** @param {Operation} operation @param {readonly ParameterMapping[]} parameters */
function assertPathIsFilled({ path }, parameters) {
  for (const [, name = ''] of path.matchAll(/\{([^{}]*)\}/g)) {
    if (parameters.some((parameter) => parameter.in === 'path' && parameter.name === name)) continue
    throw new LeftOut(`names ${quoted(name)} in its path, which is no parameter of it`)
  }
}

/** @param {Operation} operation @param {References} references @param {Note} note @returns {Body | undefined} */
function bodyOf({ given, method }, references, note) {
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
    schema: isObject(media) ? (member(media, 'schema') ?? {}) : {},
    description: typeof description === 'string' ? description : undefined,
    isRequired,
    contentType: type.split(';', 1)[0]?.trim() === '*/*' ? 'application/json' : type
  }
}

/**
 * `application/json`, `application/…+json`; and what takes anything.
 * @param {string} type
 */
export function isJsonType(type) {
  return /^(application\/([\w.!#$&^-]+\+)?json|\*\/\*|application\/\*)\s*(;[\x20-\x7e]*)?$/i.test(type.trim())
}

/** @param {ReadonlyMap<string, unknown>} properties @param {string} name @param {string} place */
function freeName(properties, name, place) {
  let free = name
  for (let count = 1; properties.has(free); count += 1) {
    free = count === 1 ? `${name}_${place}` : `${name}_${place}_${count}`
  }
  return free
}

/**
 * What the parameter says of itself outranks what its schema says.
 * @param {JsonValue} schema @param {string | undefined} description @returns {JsonValue}
 */
function described(schema, description) {
  if (description === undefined || description === '') return schema
  if (schema === true) return { description: description.slice(0, 1_000) }
  return isObject(schema) ? { ...schema, description: description.slice(0, 1_000) } : schema
}
