import type { JsonObject, JsonValue } from '../../json/lossless.ts'
import { ownValue } from '../../json/plain.ts'
import { stringifyJson } from '../../json/serialize.ts'
import { ToolArgsError } from '../../tools/args-error.ts'

/** The methods of operations that become tools. */
export type Method = 'GET' | 'PUT' | 'POST' | 'DELETE' | 'OPTIONS' | 'HEAD' | 'PATCH'

/** Where one argument goes, as `style` and `explode` of OpenAPI have it; or it is one JSON text. */
export interface ParameterMapping {
  /** Its name among the arguments. */
  readonly argument: string
  /** Its name in the request. */
  readonly name: string
  readonly in: 'path' | 'query' | 'header' | 'cookie'
  readonly style: 'simple' | 'form' | 'spaceDelimited' | 'pipeDelimited' | 'deepObject' | 'json'
  readonly explode: boolean
}

/** How the arguments of a call become a request (api.md §3). JSON, as it is stored with the tool. */
export interface RequestMapping {
  readonly method: Method
  /** `https://api.example.com/v1`, without a slash at the end. */
  readonly baseUrl: string
  /** `/pets/{petId}` */
  readonly path: string
  readonly parameters: readonly ParameterMapping[]
  readonly body?: { readonly argument: string; readonly contentType: string }
  /** The name of configured credentials. */
  readonly auth?: string
}

/** What a mapping makes of arguments. */
export interface MappedRequest {
  readonly path: string
  readonly query: readonly string[]
  readonly headers: Readonly<Record<string, string>>
  readonly body?: Buffer
}

/**
 * Makes a request of arguments that are valid by the tool's schema. Throws `ToolArgsError` for what no request can carry: a header with a
 * line break in it, or a part of the path that would lead elsewhere.
 */
export function mapRequest({ path, parameters, body }: RequestMapping, args: JsonValue): MappedRequest {
  const given = args as JsonObject
  const segments = new Map<string, string>()
  const query: string[] = []
  const cookies: string[] = []
  const headers: Record<string, string> = {}
  for (const parameter of parameters) {
    const value = ownValue(given, parameter.argument) as JsonValue | undefined
    if (value === undefined) continue
    const encode = (text: string): string => encoded(text, parameter.argument)
    if (parameter.in === 'path') segments.set(parameter.name, listed(parameter, value, encode))
    else if (parameter.in === 'query') query.push(...pairs(parameter, value, encode))
    else if (parameter.in === 'cookie') cookies.push(...pairs(parameter, value, encode))
    else headers[parameter.name.toLowerCase()] = headerValue(listed(parameter, value, String), parameter.argument)
  }
  if (cookies.length > 0) headers['cookie'] = cookies.join('; ')
  const bodyValue = body === undefined ? undefined : (ownValue(given, body.argument) as JsonValue | undefined)
  if (body !== undefined && bodyValue !== undefined) headers['content-type'] = body.contentType
  return {
    path: filledPath(path, segments),
    query,
    headers,
    ...(bodyValue !== undefined && { body: Buffer.from(stringifyJson(bodyValue)) })
  }
}

function filledPath(template: string, values: ReadonlyMap<string, string>): string {
  return template
    .split('/')
    .map((segment) => {
      if (!segment.includes('{')) return segment
      const filled = segment.replaceAll(/\{([^{}]*)\}/g, (_all, name: string) => values.get(name) ?? '')
      // No encoding keeps these from being taken for the place itself and the one above it, and an empty one names another resource.
      if (filled === '' || /^(\.|%2e){1,2}$/i.test(filled)) {
        throw new ToolArgsError([`"${segment}" of the path may be neither empty nor ${JSON.stringify('.')} nor ".."`])
      }
      return filled
    })
    .join('/')
}

/** One text: items with commas between them, members of an object as `name,value`, or `name=value` when they are exploded. */
function listed({ style, explode }: ParameterMapping, value: JsonValue, encode: (text: string) => string): string {
  if (style === 'json') return encode(stringifyJson(value))
  if (Array.isArray(value)) return value.map((item) => encode(asText(item))).join(',')
  if (typeof value !== 'object' || value === null) return encode(asText(value))
  const glue = explode ? '=' : ','
  return Object.entries(value)
    .map(([name, item]) => `${encode(name)}${glue}${encode(asText(item))}`)
    .join(',')
}

function pairs(parameter: ParameterMapping, value: JsonValue, encode: (text: string) => string): string[] {
  const { style, explode } = parameter
  const name = encode(parameter.name)
  if (style === 'json' || typeof value !== 'object' || value === null) {
    return [`${name}=${encode(style === 'json' ? stringifyJson(value) : asText(value))}`]
  }
  if (Array.isArray(value)) {
    const items = value.map((item) => encode(asText(item)))
    if (explode) return items.map((item) => `${name}=${item}`)
    const glue = style === 'spaceDelimited' ? '%20' : style === 'pipeDelimited' ? '%7C' : ','
    return items.length === 0 ? [] : [`${name}=${items.join(glue)}`]
  }
  const members = Object.entries(value).map(([key, item]) => [encode(key), encode(asText(item))] as const)
  if (style === 'deepObject') return members.map(([key, item]) => `${name}%5B${key}%5D=${item}`)
  if (explode) return members.map(([key, item]) => `${key}=${item}`)
  return members.length === 0 ? [] : [`${name}=${members.flat().join(',')}`]
}

/** What is nested deeper than the styles go is one JSON text. */
function asText(value: JsonValue): string {
  if (value === null) return ''
  return typeof value === 'object' ? stringifyJson(value) : String(value)
}

function encoded(text: string, argument: string): string {
  try {
    return encodeURIComponent(text)
  } catch {
    throw new ToolArgsError([`"${argument}" holds half of a character`])
  }
}

function headerValue(text: string, argument: string): string {
  if (/^[\x20-\x7e\t]*$/.test(text)) return text.trim()
  throw new ToolArgsError([`"${argument}" goes into a header, which takes printable ASCII alone`])
}
