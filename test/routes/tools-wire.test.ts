import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { bareTool } from '../helpers/bare-tool.ts'
import { HomeApp, outcome } from '../helpers/home-app.ts'
import { RunningServer } from '../helpers/running-server.ts'
import { EventClient } from '../helpers/served-app.ts'
import { temporaryDirectory } from '../helpers/temporary-directory.ts'
import { until } from '../helpers/until.ts'

const command = (...argv: string[]) => ({ kind: 'command', argv })
const wired = (name: string, more: Record<string, unknown> = {}) => ({
  name,
  description: `does ${name}`,
  parameters: { type: 'object' },
  executor: command('cat'),
  ...more
})
const http = (name: string, more: Record<string, unknown> = {}) =>
  wired(name, { executor: { kind: 'http', url: 'https://tools.example/run' }, ...more })

const register = (app: HomeApp, tool: unknown, token?: string) =>
  app.ask('POST', '/tools', tool, token === undefined ? {} : { token })

const invoke = async (app: HomeApp, body: Record<string, unknown>): Promise<any> =>
  (await app.ask('POST', '/invoke', body)).body

describe('POST /tools (api.md §3)', () => {
  it('F37 F43 registers a tool that is seen, described and run at once; DELETE takes it away', async () => {
    const app = await HomeApp.start()
    const tool = wired('mirror', {
      parameters: { type: 'object', properties: { x: { type: 'integer' } } },
      output: { schema: { type: 'object' } },
      timeoutMs: 20_000,
      concurrency: 'parallel',
      idempotent: true
    })
    const answer = await register(app, tool)
    expect([answer.status, answer.headers.get('location'), answer.body]).toEqual([
      201,
      '/tools/mirror?scope=global',
      { name: 'mirror', scope: 'global', executor: { kind: 'command', program: 'cat' } }
    ])
    expect((await app.ask('GET', '/tools/mirror')).body).toEqual({
      name: 'mirror',
      scope: 'global',
      description: 'does mirror',
      parameters: tool['parameters' as never],
      output: { type: 'object' },
      origin: 'wire',
      executor: { kind: 'command', program: 'cat' },
      limits: { timeoutMs: 20_000, concurrency: 'parallel' },
      idempotent: true,
      cards: { call: false, result: false }
    })
    expect(await invoke(app, { name: 'mirror', arguments: { x: 1 } })).toMatchObject({
      isError: false,
      value: { x: 1 },
      content: [{ type: 'text', text: '{\n  "x": 1\n}' }]
    })
    expect((await invoke(app, { name: 'mirror', arguments: { x: 1.5 } })).error).toMatchObject({
      info: { code: 'INVALID_ARGS' },
      effect: 'none'
    })
    const { body: dry } = await app.ask('POST', '/invoke?dryRun=true', { name: 'mirror', arguments: { x: 'a' } })
    expect(dry.violations).toEqual([expect.stringContaining('"x"')])

    const gone = await app.ask('DELETE', '/tools/mirror')
    expect([gone.status, gone.text]).toEqual([204, ''])
    expect((await invoke(app, { name: 'mirror' })).error.info.code).toBe('UNKNOWN_TOOL')
    expect(outcome(await app.ask('DELETE', '/tools/mirror'))).toBe('404 NOT_FOUND')
    expect((await register(app, tool)).status).toBe(201)

    // F43: arguments left out are {}. F37: a number that would be rounded is refused either way.
    expect((await invoke(app, { name: 'mirror' })).value).toEqual({})
    const { body } = await app.ask('POST', '/invoke', '{"name":"mirror","arguments":{"n":9007199254740993}}')
    expect(body.error.info.code).toBe('INVALID_ARGS')
    await register(app, wired('big', { executor: command('echo', '9007199254740993') }))
    expect((await invoke(app, { name: 'big' })).error).toMatchObject({
      info: { name: 'ToolOutputError', code: 'INVALID_TOOL_OUTPUT' },
      effect: 'completed',
      retryable: false
    })
  })

  it('refuses what is no definition, with the place and the code, and names that are taken', async () => {
    const app = await HomeApp.start({}, ['plain'])
    const refused: [unknown, string, string][] = [
      [wired('run_code'), '422 INVALID_DEFINITION', 'run_code'],
      [wired('a b'), '422 INVALID_DEFINITION', 'name'],
      [wired('x'.repeat(65)), '422 INVALID_DEFINITION', 'name'],
      [wired('long', { description: 'x'.repeat(5_000_000) }), '422 INVALID_DEFINITION', 'description'],
      [wired('root', { parameters: { type: 'array' } }), '422 INVALID_DEFINITION', 'parameters'],
      [wired('late', { timeoutMs: 0 }), '422 INVALID_DEFINITION', 'timeoutMs'],
      [wired('path', { executor: command('./cat') }), '422 INVALID_DEFINITION', 'executor.argv'],
      [wired('bare', { executor: { kind: 'command' } }), '422 INVALID_DEFINITION', 'executor.argv'],
      [http('url', { executor: { kind: 'http', url: 'ftp://x' } }), '422 INVALID_DEFINITION', 'executor.url'],
      [http('none', { executor: { kind: 'http' } }), '422 INVALID_DEFINITION', 'executor.url'],
      [
        wired('kind', { parameters: { type: 'object', properties: { a: { type: 'strnig' } } } }),
        '422 UNSUPPORTED_SCHEMA',
        'parameters.properties.a'
      ],
      [wired('out', { output: { schema: { pattern: '(?<=a)' } } }), '422 UNSUPPORTED_SCHEMA', 'output.schema.pattern'],
      [wired('bad', { executor: { kind: 'client', providerId: 'p' } }), '400 BAD_REQUEST', 'executor'],
      [wired('bad', { executor: { kind: 'mcp' } }), '400 BAD_REQUEST', 'executor'],
      [wired('bad', { execute: 'x' }), '400 BAD_REQUEST', 'body'],
      [{ ...wired('bad'), name: 5 }, '400 BAD_REQUEST', 'name'],
      [
        '{"name":"bad","description":"","parameters":{"type":"object"},"executor":{"__proto__":{}}}',
        '400 BAD_JSON',
        '__proto__'
      ],
      [wired('far', { scope: 'nowhere' }), '404 UNKNOWN_SCOPE', 'nowhere']
    ]
    const before = await app.names('global')
    for (const [tool, status, word] of refused) {
      const answer = await register(app, tool)
      expect([outcome(answer), answer.body.error?.message]).toEqual([status, expect.stringContaining(word)])
    }
    expect(await app.names('global')).toEqual(before)
    expect(await app.app.eventLog.rows('registrations', { kind: 'tool' })).toEqual([])

    // A name is taken once in a layer, whoever took it, and free in the next.
    await app.ask('PUT', '/scopes/a', {})
    await register(app, wired('one'))
    expect(outcome(await register(app, wired('one')))).toBe('409 DUPLICATE_TOOL')
    expect(outcome(await register(app, wired('plain')))).toBe('409 DUPLICATE_TOOL')
    expect((await register(app, wired('plain', { scope: 'a', description: 'shadows' }))).status).toBe(201)
    expect((await app.ask('GET', '/tools/plain?scope=a')).body.description).toBe('shadows')
    expect(outcome(await app.ask('DELETE', '/tools/plain'))).toBe('403 FORBIDDEN')
    expect(outcome(await app.ask('DELETE', '/tools/one?scope=a'))).toBe('404 NOT_FOUND')
    const many = await Promise.all(Array.from({ length: 8 }, () => register(app, wired('race'))))
    expect(many.map(outcome).toSorted()).toEqual(['201', ...Array.from({ length: 7 }, () => '409 DUPLICATE_TOOL')])
  })

  it('is for providers and admins, in reach; commands are an admin’s', async () => {
    const app = await HomeApp.start()
    for (const id of ['a', 'b']) await app.ask('PUT', `/scopes/${id}`, {})
    const provider = await app.tokenFor('provider', 'a')
    for (const role of ['agent', 'observer', 'operator'] as const) {
      const token = await app.tokenFor(role, 'a')
      expect([role, outcome(await register(app, http('x'), token))]).toEqual([role, '403 FORBIDDEN'])
      expect(outcome(await app.ask('DELETE', '/tools/x', undefined, { token }))).toBe('403 FORBIDDEN')
    }
    const answer = await register(app, http('mine'), provider)
    expect(answer).toMatchObject({
      status: 201,
      body: { scope: 'a', executor: { kind: 'http', url: 'https://tools.example/run' } }
    })
    expect(answer.body.signingSecret).toMatch(/^[\da-f]{64}$/)
    expect(outcome(await register(app, http('x', { scope: 'b' }), provider))).toBe('404 UNKNOWN_SCOPE')
    expect(outcome(await register(app, http('x', { scope: 'global' }), provider))).toBe('404 UNKNOWN_SCOPE')
    expect(outcome(await register(app, wired('x'), provider))).toBe('403 FORBIDDEN')

    await register(app, wired('theirs', { scope: 'a', executor: command('cat', '--secret=canary') }))
    const shown = await app.ask('GET', '/tools?scope=a&limit=500', undefined, { token: provider })
    expect(shown.text).not.toContain('canary')
    expect(outcome(await app.ask('DELETE', '/tools/theirs', undefined, { token: provider }))).toBe('403 FORBIDDEN')
    expect((await app.ask('DELETE', '/tools/mine', undefined, { token: provider })).status).toBe(204)
    await register(app, wired('everywhere'))
    const { body } = await app.ask('GET', '/tools/everywhere', undefined, { token: provider })
    expect([body.origin, body.executor, body.scope]).toEqual(['wire', { kind: 'command' }, undefined])
  })

  it('keeps to its limits, and names them', async () => {
    const app = await HomeApp.start({ 'tools.maxPerScope': '2', 'tools.max': '3', 'tools.maxDescriptionBytes': '20' })
    await app.ask('PUT', '/scopes/a', {})
    expect(outcome(await register(app, wired('x', { description: 'ö'.repeat(11) })))).toBe('422 INVALID_DEFINITION')
    for (const name of ['one', 'two']) expect((await register(app, wired(name))).status).toBe(201)
    const third = await register(app, wired('three'))
    expect([outcome(third), third.body.error.details]).toEqual([
      '429 RATE_LIMITED',
      { limit: 'tools.maxPerScope', value: 2 }
    ])
    expect((await register(app, wired('one', { scope: 'a' }))).status).toBe(201)
    expect((await register(app, wired('two', { scope: 'a' }))).body.error.details.limit).toBe('tools.max')
    await app.ask('DELETE', '/tools/one')
    expect((await register(app, wired('two', { scope: 'a' }))).status).toBe(201)
  })

  it('command tools can be switched off, and then are neither registered nor restored', async () => {
    const home = temporaryDirectory()
    const app = await HomeApp.start({ home })
    await register(app, wired('cmd'))
    await register(app, http('web'))
    await app.app.close()
    const off = await HomeApp.start({ home, 'commandTools.enabled': 'false' })
    const names = await off.names('global')
    expect([names.includes('cmd'), names.includes('web')]).toEqual([false, true])
    expect(outcome(await register(off, wired('other')))).toBe('403 FORBIDDEN')
    await off.app.close()
    const required = await HomeApp.start({ home, 'sandbox.required': 'true', 'shell.executor': 'bash-sandbox' })
    expect((await required.names('global')).includes('cmd')).toBe(false)
    expect(outcome(await register(required, wired('other')))).toBe('403 FORBIDDEN')
    // It is still stored, and can be taken away for good.
    expect((await required.ask('DELETE', '/tools/cmd')).status).toBe(204)
    expect(outcome(await required.ask('DELETE', '/tools/cmd'))).toBe('404 NOT_FOUND')
  })

  it('keys such as __proto__ are data in schemas, arguments and results, also over a restart', async () => {
    const app = await HomeApp.start()
    const schema =
      '{"type":"object","properties":{"__proto__":{"type":"string"},"constructor":{"type":"object","properties":{"prototype":{"const":1}}}}}'
    const text = `{"name":"__proto__","description":"d","parameters":${schema},"output":{"schema":${schema}},"executor":{"kind":"command","argv":["cat"]}}`
    expect((await register(app, text)).status).toBe(201)
    const check = async (): Promise<void> => {
      const call = (args: string) => app.ask('POST', '/invoke', `{"name":"__proto__","arguments":${args}}`)
      const args = '{"__proto__":"a","constructor":{"prototype":1}}'
      expect((await call(args)).text).toContain(`"value":${args}`)
      expect((await call('{"__proto__":5}')).body.error.info.code).toBe('INVALID_ARGS')
      expect((await call('{"constructor":{"prototype":2}}')).body.error.info.code).toBe('INVALID_ARGS')
      expect((await app.ask('GET', '/tools/__proto__')).text).toContain(`"parameters":${schema}`)
    }
    await check()
    await app.restart()
    await check()
    expect(Object.keys(Object.prototype)).toEqual([])
  })
})

describe('registered tools over a restart (api.md §3)', () => {
  it('come back in their order, each in its place, with masks and what was taken away staying so', async () => {
    const app = await HomeApp.start({}, ['plain'])
    await app.ask('PUT', '/scopes/a', { ttlMs: 3_600_000 })
    await app.ask('PUT', '/scopes/a.1', { parent: 'a' })
    for (const name of ['zulu', 'alpha', 'mike', 'gone']) await register(app, wired(name))
    await register(app, wired('local', { scope: 'a', concurrency: 'parallel', idempotent: true, timeoutMs: 5_000 }))
    await register(app, wired('deep', { scope: 'a.1' }))
    await app.ask('PUT', '/scopes/a.1', { restrict: [{ deny: ['zulu'] }] })
    await app.ask('DELETE', '/tools/gone')
    await app.ask('DELETE', '/tools/zulu')
    await register(app, wired('zulu'))
    const own = (names: string[]) =>
      names.filter((name) => ['zulu', 'alpha', 'mike', 'gone', 'local', 'deep'].includes(name))
    const seen = async () => [
      own(await app.names('global')),
      own(await app.names('a.1')),
      (await app.ask('GET', '/tools/local?scope=a')).body,
      (await invoke(app, { scope: 'a.1', name: 'deep', arguments: { x: 1 } })).value
    ]
    const before = await seen()
    expect(before.slice(0, 2)).toEqual([
      ['alpha', 'mike', 'zulu'],
      ['alpha', 'mike', 'local', 'deep']
    ])
    await app.restart()
    expect(await seen()).toEqual(before)

    // They go with their scope for good: a new scope of the same name has none.
    expect((await app.ask('DELETE', '/scopes/a')).status).toBe(204)
    const left = await app.app.eventLog.rows('registrations', { kind: 'tool' })
    expect(left.map(({ name }) => name)).toEqual(['alpha', 'mike', 'zulu'])
    await app.ask('PUT', '/scopes/a', {})
    await app.restart()
    expect((await app.names('a')).includes('local')).toBe(false)
    expect((await register(app, wired('local', { scope: 'a' }))).status).toBe(201)
  })

  it('one that cannot come back is stored and out of sight, and stops neither the others nor the start', async () => {
    const app = await HomeApp.start()
    await app.ask('PUT', '/scopes/a', {})
    for (const name of ['first', 'taken', 'last']) await register(app, wired(name))
    await register(app, wired('moved', { scope: 'a' }))
    const row = (name: string, scope: string, data: string) => ({
      table: 'registrations' as const,
      op: 'put' as const,
      row: { kind: 'tool', scope, name, data, created_at: 1 }
    })
    const stored = (tool: object, above: string[] = []) => JSON.stringify({ tool, executor: command('cat'), above })
    await app.app.eventLog.append({
      writes: [
        row('broken', 'global', '{'),
        row('other-name', 'global', stored(wired('another'))),
        row('bad-schema', 'global', stored({ ...wired('bad-schema'), parameters: { type: 'object', allOf: 1 } })),
        row('homeless', 'b', stored(wired('homeless'), ['global'])),
        row('elsewhere', 'a', stored(wired('elsewhere'), ['global', 'x']))
      ]
    })
    await app.app.close()
    const again = await HomeApp.start({ home: app.home })
    const names = await again.names('a')
    expect(names.filter((name) => ['first', 'taken', 'last', 'moved'].includes(name))).toEqual([
      'first',
      'taken',
      'last',
      'moved'
    ])
    for (const name of ['broken', 'other-name', 'another', 'bad-schema', 'homeless', 'elsewhere']) {
      expect([name, names.includes(name)]).toEqual([name, false])
    }
    expect(await again.app.eventLog.rows('registrations', { kind: 'tool' })).toHaveLength(9)
  })

  it('survive a kill of the real server, as what was acknowledged', async () => {
    const home = temporaryDirectory()
    const first = await RunningServer.start(home, { codeRuntime: { backend: 'off' } })
    const answer = await first.request('/tools', wired('mirror'))
    expect(answer.status).toBe(201)
    await first.end('SIGKILL')
    const second = await RunningServer.start(home, { codeRuntime: { backend: 'off' } })
    const { body } = await second.request('/invoke', { name: 'mirror', arguments: { a: [1] } })
    expect(body).toMatchObject({ isError: false, value: { a: [1] } })
    expect(await second.end('SIGTERM')).toBe(0)
  })
})

describe('registered tools in use', () => {
  it('the example of the documentation works; a change is told at once; calls that run when their tool goes come to their own end', async () => {
    const app = await HomeApp.start()
    const page = readFileSync(new URL('../../docs/wire-tools.md', import.meta.url), 'utf8')
    const [example, call] = [...page.matchAll(/-d '(\{.*?\})'\n/gs)].map(([, json]) => json)
    expect((await register(app, example)).status).toBe(201)
    expect((await app.ask('POST', '/invoke', call)).body.value).toEqual({ words: 6 })

    const { port } = app.app.server.address() as { port: number }
    const admin = readFileSync(join(app.home, 'admin-token'), 'utf8').trim()
    const client = await EventClient.open({ port, admin } as never)
    client.send({ type: 'subscribe', id: 's' })
    await client.next(({ type }) => type === 'subscribed')
    const mark = join(app.home, 'started')
    const go = join(app.home, 'go')
    const script = `touch ${mark}; while [ ! -e ${go} ]; do sleep 0.05; done; echo '"done"'`
    await register(app, wired('slow', { executor: command('bash', '-c', script) }))
    await until(() => client.events('s').includes('tools/change'))
    const running = invoke(app, { name: 'slow' })
    await until(() => {
      try {
        return readFileSync(mark).length === 0
      } catch {
        return false
      }
    })
    expect((await app.ask('DELETE', '/tools/slow')).status).toBe(204)
    expect((await invoke(app, { name: 'slow' })).error.info.code).toBe('UNKNOWN_TOOL')
    await app.ask('POST', '/invoke', { name: 'bash', arguments: { command: `touch ${go}`, description: 'Go.' } })
    expect(await running).toMatchObject({ isError: false, value: 'done' })
  })

  it('every provider format and both SDKs take them, whatever their schemas; what is lowered is noted', async () => {
    const app = await HomeApp.start({ 'codeRuntime.backend': 'process' })
    const schemas: Record<string, unknown>[] = [
      {
        $schema: 'http://json-schema.org/draft-07/schema#',
        type: 'object',
        properties: {
          pair: { type: 'array', items: [{ type: 'string' }, { type: 'number' }], additionalItems: false }
        },
        definitions: { id: { type: 'integer' } }
      },
      { type: 'object', properties: { x: { type: 'integer' }, y: { $ref: '#/properties/x' }, self: { $ref: '#' } } },
      {
        type: 'object',
        patternProperties: { '^x-': { type: 'string', pattern: '^a+$' } },
        not: { required: ['y'] },
        if: { required: ['a'] },
        // oxlint-disable-next-line unicorn/no-thenable -- a keyword of JSON Schema
        then: { required: ['b'] },
        unevaluatedProperties: false,
        'x-foo': 1
      },
      { type: 'object', properties: { any: true, none: false, when: { type: 'string', format: 'uint32' } } },
      { type: 'object', allOf: [{ properties: { a: { type: ['string', 'null'] } } }, { required: ['a'] }] }
    ]
    for (const [index, parameters] of schemas.entries()) {
      const output = index % 2 === 0 ? {} : { output: { schema: parameters } }
      expect((await register(app, wired(`t${index}`, { parameters, ...output }))).status).toBe(201)
    }
    for (const format of ['native', 'openai', 'openai-responses', 'anthropic', 'gemini', 'mcp']) {
      const { status, body } = await app.ask('GET', `/scopes/global/schemas?format=${format}`)
      expect([format, status]).toEqual([format, 200])
      const noted = new Set((body.notes ?? []).map(({ tool }: { tool: string }) => tool))
      if (format === 'gemini') expect(noted).toContain('t2')
      if (format === 'native') expect(noted.size).toBe(0)
    }
    await app.ask('PUT', '/scopes/a', { presentAs: 'code' })
    const prompt = await app.ask('GET', '/scopes/a/prompt')
    expect(prompt.status).toBe(200)
    for (const index of schemas.keys()) expect(prompt.text).toContain(`t${index}`)
    app.app.tools.register(bareTool('after'))
    expect((await app.ask('GET', '/scopes/a/prompt')).status).toBe(200)
  })
})
