import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { parse } from 'yaml'
import { afterAll, describe, expect, it } from 'vitest'
import {
  importOpenApi,
  type ImportOptions,
  type ImportReport
} from '../../../server/executors/import/import-openapi.ts'
import { HttpToolError } from '../../../server/executors/http-executor-errors.ts'
import type { JsonValue } from '../../../server/json/lossless.ts'
import { WireSchemas } from '../../../server/schema/ajv-validator.ts'

const yaml = readFileSync(resolve(import.meta.dirname, '../../fixtures/openapi/pets.yaml'), 'utf8')
const pets = parse(yaml) as JsonValue
const schemas = new WireSchemas()
afterAll(() => schemas.close())

const run = (document: JsonValue, options: ImportOptions = {}, maxMs = 60_000): Promise<ImportReport> =>
  importOpenApi(JSON.stringify({ document }), options, {
    schemas,
    assertAllowed: (url) => {
      if (url.hostname === 'blocked.example') throw new HttpToolError('HTTP_TOOL_BLOCKED', 'blocked', 'none')
    },
    isAuthFor: (origin) => origin === 'https://pets.example',
    maxMs
  })

const document = (paths: JsonValue, more: Record<string, JsonValue> = {}): JsonValue => ({
  openapi: '3.1.0',
  servers: [{ url: 'https://api.example' }],
  paths,
  ...more
})
const toolNamed = ({ tools }: ImportReport, name: string) => tools.find(({ tool }) => tool.name === name)!

describe('a document in YAML', () => {
  it('becomes tools, and says what did not', async () => {
    const report = await run(yaml)
    expect(report).toEqual(await run(pets))
    expect(report.tools.map(({ tool, operation }) => [tool.name, operation])).toEqual([
      [expect.stringMatching(/^listPets_[0-9a-f]{8}$/), 'GET /pets'],
      ['add_pet', 'POST /pets'],
      ['get_pets_petId', 'GET /pets/{petId}'],
      [expect.stringMatching(/^listpets_[0-9a-f]{8}$/), 'DELETE /pets/{petId}'],
      ['hasPet', 'HEAD /pets/{petId}'],
      ['setOwner', 'PUT /owners/{id}/pets']
    ])
    expect(report.skipped).toEqual([
      { operation: 'TRACE /pets/{petId}', reason: 'has a method that is not supported' },
      { operation: 'PATCH /pets/{petId}', reason: 'needs a body of "text/xml", which is not JSON' },
      { operation: 'GET /owners/{id}/pets', reason: expect.stringContaining('style "matrix"') }
    ])
    expect(report.notes).toEqual([
      expect.stringContaining('"Accept" is left out'),
      expect.stringMatching(/^GET \/pets\/\{petId\}: its patterns are not checked here/),
      expect.stringMatching(/^DELETE/),
      expect.stringMatching(/^HEAD/),
      '5 operations ask for credentials, and no "auth" was given'
    ])
  })

  it('says of each what it does, how often it may be sent and whether it may overlap', async () => {
    const report = await run(pets, { timeoutMs: 5_000, prefix: 'p_' })
    const facts = Object.fromEntries(
      report.tools.map(({ operation, tool }) => [
        operation,
        [tool.concurrency, tool.idempotent, tool.timeoutMs, tool.origin]
      ])
    )
    expect(facts).toEqual({
      'GET /pets': ['parallel', true, 5_000, 'import'],
      'POST /pets': ['exclusive', false, 5_000, 'import'],
      'GET /pets/{petId}': ['parallel', true, 5_000, 'import'],
      'HEAD /pets/{petId}': ['parallel', true, 5_000, 'import'],
      'DELETE /pets/{petId}': ['exclusive', true, 5_000, 'import'],
      'PUT /owners/{id}/pets': ['exclusive', true, 5_000, 'import']
    })
    expect(toolNamed(report, 'p_add_pet').tool.description).toBe('POST /pets')
    expect(report.tools[0]?.tool.description).toBe('List pets\n\nThose of a kind.')
    expect(report.tools[3]?.tool.description).toBe('Deprecated. DELETE /pets/{petId}')
  })

  it('its schemas stand by themselves and mean what they meant', async () => {
    const report = await run(pets)
    const add = toolNamed(report, 'add_pet').tool
    expect(add.parameters).toMatchObject({ required: ['body'], additionalProperties: false })
    const parameters = await schemas.compile(add.parameters)
    const violations = (pet: JsonValue) => parameters.validate({ body: pet }, '')
    expect(await violations({ name: 'Rex', age: null, kind: null, parent: { name: 'Old' } })).toEqual([])
    expect(await violations({ name: 'Rex', age: 0 })).not.toEqual([])
    expect(await violations({ name: 'Rex', parent: { name: '' } })).not.toEqual([])
    expect(await violations({ kind: 'cat' })).not.toEqual([])
    expect(JSON.stringify(add.parameters)).not.toMatch(/readOnly|"id"|nullable|example|xml/)
    const output = await schemas.compile(add.output?.schema)
    expect(await output.validate({ id: 1, name: 'Rex' }, 'value')).toEqual([])
    expect(await output.validate(null, 'value')).toEqual([])
    expect(await output.validate({ name: 'Rex' }, 'value')).not.toEqual([])
    expect(JSON.stringify(add.output)).not.toContain('secret')
    expect(toolNamed(report, 'get_pets_petId').tool.output).toBeUndefined()
    const owner = toolNamed(report, 'setOwner')
    expect(Object.keys(owner.tool.parameters['properties'] as object)).toEqual([
      'id',
      'id_query',
      'body',
      'body_content'
    ])
    expect(owner.request.body).toEqual({ argument: 'body_content', contentType: 'application/merge-patch+json' })
  })

  it('credentials go to their servers alone, and where the document asks for none, to nobody', async () => {
    const report = await run(pets, { auth: 'pets' })
    expect(report.tools.map(({ request }) => request.auth)).toEqual(['pets', 'pets', undefined, 'pets', 'pets', 'pets'])
    const elsewhere = await run(pets, { auth: 'pets', baseUrl: 'https://evil.example' })
    expect(elsewhere.tools.map(({ operation }) => operation)).toEqual(['GET /pets/{petId}'])
    expect(elsewhere.skipped.filter(({ reason }) => reason.includes('may not get the credentials'))).toHaveLength(7)
  })

  it('can be chosen from', async () => {
    const names = async (options: ImportOptions) => (await run(pets, options)).tools.map(({ operation }) => operation)
    expect(await names({ include: ['tag:read', 'HEAD *'] })).toEqual(['GET /pets', 'HEAD /pets/{petId}'])
    expect(await names({ include: ['* /pets*'], exclude: ['DELETE*', '*{petId}*'] })).toEqual([
      'GET /pets',
      'POST /pets'
    ])
    expect((await run(pets, { include: ['listPets'] })).tools[0]?.tool.name).toBe('listPets')
    await expect(run(pets, { include: ['nothing*'] })).rejects.toMatchObject({ code: 'INVALID_DEFINITION' })
  })
})

describe('names', () => {
  const get = (operationId: string) => ({ operationId, responses: {} })

  it('F45 that are too long or the same stay apart, in whatever order they come', async () => {
    const long = 'a'.repeat(80)
    const paths: [string, JsonValue][] = [
      ['/x', { get: get(`${long}_create`) }],
      ['/y', { get: get(`${long}_delete`) }],
      ['/z', { get: get('same/name') }],
      ['/w', { get: get('same name') }],
      ['/v', { get: get('run_code') }],
      ['/u', { get: get('***') }]
    ]
    const named = async (entries: typeof paths) => {
      const { tools } = await run(document(Object.fromEntries(entries)))
      return Object.fromEntries(tools.map(({ operation, tool }) => [operation, tool.name]))
    }
    const names = await named(paths)
    expect(new Set(Object.values(names)).size).toBe(6)
    for (const name of Object.values(names)) expect(name).toMatch(/^[A-Za-z0-9_-]{1,64}$/)
    expect(names['GET /v']).toMatch(/^run_code_[0-9a-f]{8}$/)
    expect(names['GET /u']).toBe('operation')
    expect(await named(paths.toReversed())).toEqual(names)
  })
})

describe('a hostile document', () => {
  const withSchema = (schema: JsonValue, more: Record<string, JsonValue> = {}): JsonValue =>
    document({ '/x': { post: { requestBody: { content: { 'application/json': { schema } } }, responses: {} } } }, more)
  const reasons = async (given: JsonValue) => (await run(given)).skipped.map(({ reason }) => reason)

  it.each([
    ['no object', []],
    ['null', null],
    ['no version', {}],
    ['Swagger 2', { swagger: '2.0', paths: {} }],
    ['a version to come', { openapi: '4.0.0', paths: {} }],
    ['no operation', document({})],
    ['broken JSON', '{"openapi": '],
    ['broken YAML', 'a: [b'],
    ['too large', `{"openapi":"3.0.0","x":"${'x'.repeat(10_000_000)}"}`],
    ['too deep', `{"openapi":"3.0.0","x":${'['.repeat(100_000)}${']'.repeat(100_000)}}`],
    ['YAML too deep', `openapi: 3.0.0\nx: ${'['.repeat(2_000)}${']'.repeat(2_000)}`],
    [
      'YAML whose aliases multiply',
      `a: &a [x,x,x,x,x,x,x,x,x,x]\n${Array.from({ length: 9 }, (_, at) => `${'bcdefghij'[at]}: &${'bcdefghij'[at]} [${Array(10).fill(`*${'abcdefghi'[at]}`).join()}]`).join('\n')}`
    ]
  ])('%s is refused', async (_name, given) => {
    await expect(run(given)).rejects.toMatchObject({ code: 'INVALID_DEFINITION' })
  })

  it('an answer of which no content is stated may be any; that of a 204 is nothing', async () => {
    const responses = (...statuses: string[]): JsonValue => ({
      get: { responses: Object.fromEntries(statuses.map((status) => [status, { description: 'done' }])) }
    })
    const { tools } = await run(
      document({ '/a': responses('200'), '/b': responses('204'), '/c': responses('204', '201') })
    )
    expect(tools.map(({ tool }) => tool.output)).toEqual([undefined, { schema: { type: 'null' } }, undefined])
  })

  it('schemas that take too long to check end the import', async () => {
    const paths = { '/x': { get: { responses: {} } } }
    await expect(run(document(paths), {}, 0)).rejects.toMatchObject({
      code: 'INVALID_DEFINITION',
      message: expect.stringContaining('too long')
    })
  })

  it('5,000 operations are too many at once, and some of them are not', async () => {
    const paths = Object.fromEntries(Array.from({ length: 5_000 }, (_, at) => [`/p${at}`, { get: { responses: {} } }]))
    await expect(run(document(paths))).rejects.toMatchObject({
      code: 'INVALID_DEFINITION',
      message: expect.stringContaining('5000')
    })
    expect((await run(document(paths), { include: ['GET /p499*'] })).tools).toHaveLength(11)
  })

  it('more operations than there can be, and patterns that would take for ever', async () => {
    const many = Object.fromEntries(Array.from({ length: 20_001 }, (_, at) => [`/p${at}`, { get: {} }]))
    await expect(run(document(many), { include: ['none'] })).rejects.toMatchObject({ code: 'INVALID_DEFINITION' })
    const tags = Array.from({ length: 2_000 }, () => 'a'.repeat(500))
    const include = Array.from({ length: 100 }, (_, at) => `*${'a'.repeat(300)}b${at}`)
    const asking = run(document({ '/x': { get: { tags } } }), { include })
    await expect(asking).rejects.toMatchObject({ message: expect.stringContaining('too long') })
  })

  it('more documents than may wait to be read', async () => {
    const text = 'openapi: 3.1.0\npaths: {/x: {get: {responses: {}}}}'
    const asked = await Promise.allSettled(Array.from({ length: 6 }, async () => run(text)))
    const codes = asked.map((each) => (each.status === 'rejected' ? each.reason.code : 'read'))
    expect(codes).toEqual(['read', 'read', 'read', 'read', 'OVERLOADED', 'OVERLOADED'])
    await expect(run(text)).resolves.toMatchObject({ tools: [] })
  })

  it('references that lead out, nowhere, in circles, or over the prototype', async () => {
    const bad = [
      'https://evil.example/x.json',
      'file:///etc/passwd',
      'other.yaml#/x',
      '#/nope',
      '#/__proto__',
      '#/constructor/name',
      '#anchor'
    ]
    for (const $ref of bad) expect(await reasons(withSchema({ $ref }))).toEqual([expect.stringContaining('refers to')])
    expect(await reasons(withSchema({ $ref: 5 }))).toEqual([expect.stringContaining('no text')])
    const loop = { parameters: { A: { $ref: '#/components/parameters/B' }, B: { $ref: '#/components/parameters/A' } } }
    const circular = document(
      { '/x': { get: { parameters: [{ $ref: '#/components/parameters/A' }], responses: {} } } },
      { components: loop }
    )
    expect(await reasons(circular)).toEqual([expect.stringContaining('do not end')])
    const self = document({ '/x': { $ref: '#/paths/~1x' } })
    expect(await reasons(self)).toEqual([expect.stringContaining('do not end')])
    const selfSchema = withSchema(
      { $ref: '#/components/schemas/A' },
      { components: { schemas: { A: { $ref: '#/components/schemas/A' } } } }
    )
    expect(await reasons(selfSchema)).toEqual([expect.any(String)])
  })

  it('schemas that are too large, too deep or too costly', async () => {
    const wide = {
      type: 'object',
      properties: Object.fromEntries(Array.from({ length: 3_000 }, (_, at) => [`p${at}`, {}]))
    }
    const doubling = Object.fromEntries(
      Array.from({ length: 25 }, (_, at) => [
        `D${at}`,
        at === 24
          ? { type: 'string' }
          : { allOf: [{ $ref: `#/components/schemas/D${at + 1}` }, { $ref: `#/components/schemas/D${at + 1}` }] }
      ])
    )
    const texts = { type: 'string', enum: Array.from({ length: 50_000 }, (_, at) => `value-${at}`) }
    let deep: JsonValue = { type: 'string' }
    for (let level = 0; level < 100; level += 1) deep = { type: 'array', items: deep }
    for (const schema of [wide, texts, deep]) expect(await reasons(withSchema(schema))).toHaveLength(1)
    const given = withSchema({ $ref: '#/components/schemas/D0' }, { components: { schemas: doubling } })
    expect(await reasons(given)).toEqual([expect.stringContaining('cannot be checked')])
  })

  it('names such as `__proto__` are names', async () => {
    const report = await run(
      JSON.stringify(
        document({
          '/__proto__/{__proto__}': {
            get: {
              operationId: '__proto__',
              parameters: [{ name: '__proto__', in: 'path', required: true, schema: { type: 'string' } }],
              responses: {}
            }
          }
        })
      )
    )
    const [{ tool } = {} as never] = report.tools
    expect(tool.name).toBe('proto')
    expect(Object.keys(tool.parameters['properties'] as object)).toEqual(['__proto__'])
    expect(({} as Record<string, unknown>)['type']).toBeUndefined()
  })

  it('paths that would lead elsewhere, and servers where no tool may be', async () => {
    const bad = ['/../admin', '/a/%2e%2E/b', '/x?admin=1', '/x#y', '/a b', '/ü', 'x', '/a\r\nhost: evil']
    const paths = Object.fromEntries(bad.map((path) => [path, { get: { responses: {} } }]))
    const report = await run(document(paths))
    expect(report.tools).toEqual([])
    expect(report.skipped).toHaveLength(bad.length)
    for (const url of [
      'https://blocked.example',
      'ftp://a.example',
      'https://u:p@a.example',
      '/v1',
      'https://{host}',
      ''
    ]) {
      expect((await run(document({ '/x': { get: { responses: {} } } }, { servers: [{ url }] }))).tools, url).toEqual([])
    }
    await expect(run(document({ '/x': { get: {} } }), { baseUrl: 'nonsense' })).rejects.toMatchObject({
      code: 'INVALID_DEFINITION'
    })
  })

  it('members that are of another kind than they must be', async () => {
    const oddities: JsonValue[] = [5, null, 'x', [], [[]], { a: 5 }]
    for (const odd of oddities) {
      await expect(run(document(odd)))
        .rejects.toMatchObject({ code: 'INVALID_DEFINITION' })
        .catch(() => undefined)
      const operations: JsonValue[] = [
        odd,
        { parameters: odd },
        { parameters: [odd] },
        { requestBody: odd },
        { responses: odd },
        { responses: { 200: odd } },
        { tags: odd },
        { security: odd },
        { servers: odd },
        { requestBody: { content: odd } },
        { requestBody: { content: { 'application/json': { schema: odd } } } },
        { parameters: [{ name: 'x', in: 'query', schema: odd }] },
        { responses: { 200: { content: { 'application/json': { schema: odd } } } } }
      ]
      const paths = Object.fromEntries(operations.map((operation, at) => [`/x${at}`, { post: operation }]))
      const report = await run(document(paths))
      expect(report.tools.length + report.skipped.length).toBe(operations.length)
    }
  })
})
