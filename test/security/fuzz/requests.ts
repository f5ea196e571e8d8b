import * as fc from 'fast-check'
import { initialize } from '../../helpers/mcp-client.ts'
import type { Operation, Parameter } from './operations.ts'
import { almostValid, hostile, hostileString, type Pools, valid, wellFormed } from './values.ts'

export interface FuzzRequest {
  method: string
  path: string
  headers: Record<string, string>
  body: string | undefined
}

/** Names between at signs stand for something that is there when the request is sent. */
const openApiDocument = {
  openapi: '3.1.0',
  info: { title: 'a', version: '1' },
  servers: [{ url: 'http://fuzz.invalid' }],
  paths: {
    '/a/{b}': {
      get: {
        operationId: 'a',
        parameters: [{ name: 'b', in: 'path', required: true, schema: { type: 'string' } }],
        responses: {}
      }
    }
  }
}
const jsonSchema = fc.oneof(
  fc.constantFrom(
    { type: 'object' },
    { type: 'object', properties: { text: { type: 'string', maxLength: 9 } }, required: ['text'] },
    {
      type: 'object',
      properties: { a: { $ref: '#/$defs/a' } },
      $defs: { a: { anyOf: [{ type: 'null' }, { $ref: '#/$defs/a' }] } }
    },
    { type: 'object', properties: { a: { type: 'string', pattern: '^(a|a)*$' } } },
    { type: 'object', patternProperties: { '(?<=a)b': {} } },
    { $ref: 'http://fuzz.invalid/schema.json' },
    { type: 'object', properties: { __proto__: { type: 'string' }, constructor: { type: 'number' } } },
    { allOf: Array.from({ length: 300 }, () => ({ type: 'object' })) }
  ),
  hostile
)
const scopes = fc.constantFrom('f1', 'f2', 'f1.x')
const tools = fc.constantFrom(
  'fuzz_echo',
  'fuzz_echo',
  'fuzz_asked',
  'fuzz_new',
  'fuzz_fail',
  'todo_write',
  'bash',
  'read',
  'run_code',
  'nobody'
)
const someArguments = fc.oneof(fc.constantFrom<unknown>({ text: 'a' }, { todos: [] }, {}, { text: 1 }), hostile)
const ids = fc.constantFrom('@approval@', '@token@', '@mask@', '0123456789abcdef', 'pty-1', 'bash-1')

export const pools: Pools = {
  scope: scopes,
  parent: fc.oneof(scopes, fc.constant('global')),
  session: fc.constantFrom('s1', 's2', 's3', 'f1:default'),
  callId: fc.constantFrom('c1', 'c2', 'c3', 'c4', 'c5'),
  name: tools,
  allow: fc.array(tools),
  deny: fc.array(tools),
  id: ids,
  approvalId: fc.constant('@approval@'),
  providerId: fc.constantFrom('p1', 'p2'),
  dispatchId: fc.constant('@dispatch@'),
  arguments: someArguments,
  rawArguments: fc.oneof(
    someArguments.map((value) => JSON.stringify(value)),
    fc.constantFrom('{', '{"a":-0}', '1e999', '{"a":9007199254740993}')
  ),
  value: hostile,
  parameters: jsonSchema,
  schema: jsonSchema,
  document: fc.oneof(
    fc.constantFrom<unknown>(openApiDocument, JSON.stringify(openApiDocument), 'a: &a [*a, *a]', '{'),
    almostValid(fc.constant(openApiDocument))
  ),
  url: fc.constantFrom(
    'http://fuzz.invalid/a',
    'http://127.0.0.1:1/',
    'http://[::ffff:127.0.0.1]/',
    'file:///etc/passwd',
    'gopher://x'
  ),
  baseUrl: fc.constantFrom('http://fuzz.invalid', 'http://169.254.169.254', 'nothing'),
  cwd: fc.constantFrom('/', '/nowhere', '../..', 'a\0b'),
  // What holds a slot long is no use to a fuzzer; longer waits have tests of their own.
  waitMs: fc.constantFrom(0, 1, 30, '0', '-1', '60001', 'x'),
  ttlMs: fc.constantFrom(3_600_000, 31_536_000_000),
  timeoutMs: fc.constantFrom(1, 500),
  'mcp-session-id': fc.constantFrom('@mcp@', '@mcp@', 'nothing'),
  'mcp-protocol-version': fc.constantFrom('2025-11-25', '2025-06-18', '1999-01-01'),
  'last-event-id': fc.constantFrom('0', '-1', '1_0', 'x'),
  prefer: fc.constantFrom('respond-async', 'wait=1', ''),
  'idempotency-key': fc.constantFrom('c1', 'k1', 'x'.repeat(300))
}

const mcpMessage = fc.oneof(
  fc.constantFrom<unknown>(
    initialize,
    { jsonrpc: '2.0', id: 1, method: 'tools/list' },
    { jsonrpc: '2.0', id: 'a', method: 'ping' }
  ),
  fc.constantFrom<unknown>(
    { jsonrpc: '2.0', method: 'notifications/initialized' },
    { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } }
  ),
  fc.record({
    jsonrpc: fc.constant('2.0'),
    id: fc.nat(9),
    method: fc.constant('tools/call'),
    params: fc.record({ name: tools, arguments: someArguments })
  }),
  fc.record({
    jsonrpc: fc.constant('2.0'),
    id: fc.nat(9),
    method: fc.constantFrom('resources/list', 'logging/setLevel', 'completion/complete'),
    params: hostile
  })
)

/** Requests of one operation: as it must be, nearly so, and not at all. */
export function requestsOf(operation: Operation): fc.Arbitrary<FuzzRequest> {
  const { method, path, parameters, body } = operation
  const inPath = fc.tuple(...parameters.filter((each) => each.in === 'path').map(pathValue))
  const query = fc.tuple(
    fc.tuple(...parameters.filter((each) => each.in === 'query').map(queryValues)),
    fc.oneof(
      { arbitrary: fc.constant(''), weight: 12 },
      hostileString.map((text) => `&${encode(text)}`),
      fc.constantFrom('&token=x', '&__proto__=1', '&%', '&a[]=1')
    )
  )
  const headers = fc.tuple(fc.tuple(...parameters.filter((each) => each.in === 'header').map(headerValue)), everyHeader)
  const isMcp = path.endsWith('/mcp')
  const value = body === undefined ? hostile : isMcp ? mcpMessage : valid(body, pools)
  const hasBody = body !== undefined ? fc.nat(19).map((dice) => dice > 0) : fc.nat(9).map((dice) => dice === 0)
  return fc
    .tuple(inPath, query, headers, hasBody, bodyText(value))
    .map(([places, [pairs, more], [given, common], isSent, text]) => {
      let place = 0
      const search = [...pairs.flat(), more].join('&').replaceAll('&&', '&').replace(/^&/, '')
      return {
        method,
        path:
          path.replaceAll(/\{\w+\}/g, () => places[(place += 1) - 1] as string) + (search === '' ? '' : `?${search}`),
        headers: {
          ...(isSent ? { 'content-type': 'application/json' } : {}),
          ...Object.fromEntries(given.flat() as [string, string][]),
          ...common
        },
        body: isSent ? text : undefined
      }
    })
}

const bodyText = (value: fc.Arbitrary<unknown>): fc.Arbitrary<string> =>
  fc.oneof(
    { arbitrary: value.map(toText), weight: 10 },
    { arbitrary: almostValid(value).map(toText), weight: 6 },
    { arbitrary: hostile.map(toText), weight: 1 },
    fc.tuple(value.map(toText), fc.nat(400)).map(([text, length]) => text.slice(0, length)),
    fc
      .tuple(value.map(toText), fc.nat(400), fc.string({ unit: 'binary', maxLength: 3 }))
      .map(([text, at, more]) => text.slice(0, at) + more + text.slice(at)),
    fc.constantFrom(
      '',
      'null',
      '1e400',
      '{"__proto__":{"polluted":1}}',
      '{"a":1,"a":2}',
      '['.repeat(100_000),
      '\ufeff{}',
      '{"constructor":{"prototype":{"polluted":1}}}'
    )
  )

const toText = (value: unknown): string => JSON.stringify(value) ?? ''

/** Of a path: never empty, which would be another path. */
function pathValue({ name, schema }: Parameter): fc.Arbitrary<string> {
  const texts = fc.oneof({ arbitrary: valid(schema, pools, name), weight: 12 }, hostileString)
  return texts.map((value) => encode(String(value)) || '0')
}

function queryValues({ name, schema }: Parameter): fc.Arbitrary<string[]> {
  const value = fc.oneof({ arbitrary: valid(schema, pools, name), weight: 4 }, hostileString)
  return fc
    .oneof(
      { arbitrary: fc.constant([]), weight: 3 },
      { arbitrary: fc.array(value, { minLength: 1, maxLength: 1 }), weight: 4 },
      fc.array(value, { minLength: 2, maxLength: 3 })
    )
    .map((values) => values.map((each) => `${name}=${encode(String(each))}`))
}

function headerValue({ name, schema }: Parameter): fc.Arbitrary<[string, string][]> {
  const value = fc.oneof({ arbitrary: valid(schema, pools, name), weight: 4 }, hostileString)
  return fc.option(value, { nil: undefined }).map((given) => (given === undefined ? [] : [[name, headerText(given)]]))
}

const everyHeader: fc.Arbitrary<Record<string, string>> = fc.oneof(
  { arbitrary: fc.constant({}), weight: 20 },
  { arbitrary: fc.constant({ accept: 'application/json, text/event-stream' }), weight: 20 },
  fc.constantFrom<Record<string, string>>(
    { accept: 'application/x-ndjson' },
    { accept: 'text/html' },
    { accept: 'text/event-stream;q=0, */*' }
  ),
  fc.constantFrom<Record<string, string>>(
    { 'content-type': 'text/plain' },
    { 'content-type': 'application/json; charset=latin1' },
    { 'content-encoding': 'gzip' }
  ),
  fc.constantFrom<Record<string, string>>(
    { origin: 'http://evil.example' },
    { host: 'evil.example' },
    { 'sec-fetch-site': 'cross-site' },
    { authorization: 'Bearer x' }
  ),
  hostileString.map((text) => ({
    traceparent: headerText(text),
    'x-forwarded-for': headerText(text),
    'if-none-match': headerText(text)
  }))
)

/** What the client library lets through; the rest is for bytes. */
const headerText = (value: unknown): string => String(value).replaceAll(/[^\t\x20-\x7e\x80-\xff]/g, '?')

/** Percent-encoded but for the names that stand for what is there; half a character as what UTF-8 makes of it. */
const encode = (text: string): string =>
  /^@\w+@$/.test(text) || text === '%ff' || text === '%00'
    ? text
    : encodeURIComponent(wellFormed(text)).replaceAll('.', '%2e')
