import fastify, { type FastifyInstance } from 'fastify'
import { describe, expect, it, onTestFinished } from 'vitest'
import { validation } from '../../plugins/engine/validation.ts'
import { errors } from '../../plugins/engine/errors.ts'
import { promptRoutes } from '../../routes/prompt.ts'
import { sdkSections } from '../../server/code-mode/sdk-section.ts'
import { ScopeTree } from '../../server/scopes/scope-tree.ts'
import type { Mode } from '../../server/tools/presentation.ts'
import { Registry } from '../../server/tools/registry.ts'
import { providerFormats } from '../../server/tools/provider-formats.ts'
import { bareTool } from '../helpers/bare-tool.ts'
import { HomeApp, outcome } from '../helpers/home-app.ts'

/** Without the tools that the server has by itself. */
const added = (names: string[]): string[] => names.filter((name) => ['zulu', 'alpha', 'mike'].includes(name))
const promptNames = async (app: HomeApp, scope = 'global'): Promise<string[]> =>
  (await app.ask('GET', `/scopes/${scope}/prompt`)).body.tools.map(({ name }: { name: string }) => name)

describe('GET /scopes/{scope}/schemas and /prompt (api.md §3)', () => {
  it('C036 the catalogue keeps the order of registration, the prompt sorts by name or as configured', async () => {
    const names = ['zulu', 'alpha', 'mike']
    const app = await HomeApp.start({}, names)
    expect(added(await app.names('global'))).toEqual(names)
    expect(added(await promptNames(app))).toEqual(['alpha', 'mike', 'zulu'])
    const ordered = await HomeApp.start({ 'tools.order': 'zulu,<unlisted-tools>' }, names)
    expect(added(await promptNames(ordered))).toEqual(['zulu', 'alpha', 'mike'])
    await ordered.ask('PUT', '/scopes/a', { restrict: [{ deny: ['zulu'] }] })
    expect(added(await promptNames(ordered, 'a'))).toEqual(['alpha', 'mike'])
    const wrong = await HomeApp.start({ 'tools.order': 'nobody,<unlisted-tools>' }, names)
    const refused = await wrong.ask('GET', '/scopes/global/prompt')
    expect([outcome(refused), refused.body.error.message]).toEqual([
      '422 INVALID_DEFINITION',
      expect.stringContaining('nobody')
    ])
  })

  it('a configured order without its marker, or with a name twice, is no configuration', async () => {
    for (const order of ['alpha', 'alpha,alpha,<unlisted-tools>']) {
      await expect(HomeApp.start({ 'tools.order': order })).rejects.toThrow(/tools\.order/)
    }
  })

  it('every format answers both, each in its own shape, and says what it could not say', async () => {
    const app = await HomeApp.start()
    app.app.tools.register(bareTool('pick', { parameters: { type: 'object', oneOf: [{ required: ['a'] }, {}] } }))
    const shape: Record<string, string[]> = {
      native: ['name', 'description', 'parameters'],
      openai: ['type', 'function'],
      'openai-responses': ['type', 'name', 'description', 'parameters', 'strict'],
      anthropic: ['name', 'description', 'input_schema'],
      gemini: ['name', 'description', 'parameters'],
      mcp: ['name', 'description', 'inputSchema']
    }
    for (const format of providerFormats) {
      const [schemas, prompt] = await Promise.all(
        ['schemas', 'prompt'].map((path) => app.ask('GET', `/scopes/global/${path}?format=${format}`))
      )
      expect([schemas!.status, prompt!.status]).toEqual([200, 200])
      expect([format, Object.keys(schemas!.body.schemas[0])]).toEqual([format, shape[format]])
      expect(Object.keys(prompt!.body.tools[0])).toEqual(shape[format])
      const isLossless = format === 'native' || format === 'mcp'
      for (const { notes } of [schemas!.body, prompt!.body]) {
        if (isLossless) expect(notes).toBeUndefined()
        else expect(notes).toContainEqual({ tool: 'pick', path: expect.any(String), note: expect.any(String) })
      }
    }
    for (const format of ['xml', 'constructor', '__proto__', '']) {
      expect(outcome(await app.ask('GET', `/scopes/global/prompt?format=${format}`))).toBe('400 BAD_REQUEST')
    }
  })

  it('the prompt stays byte-identical, with its ETag, while the visible set does; If-None-Match is 304', async () => {
    const app = await HomeApp.start({}, ['alpha', 'beta'])
    await app.ask('PUT', '/scopes/a', { restrict: [{ deny: ['beta'] }] })
    const path = '/scopes/a/prompt?format=openai'
    const first = await app.ask('GET', path)
    const etag = first.headers.get('etag') ?? ''
    expect(etag).toMatch(/^"[\w-]{43}"$/)
    expect(first.headers.get('cache-control')).toBe('private, no-cache')
    for (const header of [etag, `W/${etag}`, `"x", ${etag}`, '*']) {
      const cached = await app.ask('GET', path, undefined, { headers: { 'if-none-match': header } })
      expect([cached.status, cached.text, cached.headers.get('etag')]).toEqual([304, '', etag])
    }
    const other = await app.ask('GET', path, undefined, { headers: { 'if-none-match': '"x"' } })
    expect(other.status).toBe(200)
    expect((await app.ask('GET', '/scopes/a/prompt')).headers.get('etag')).not.toBe(etag)

    // Changes elsewhere, and one there and back, touch nothing; nor does the order of registration, nor a restart.
    await app.ask('PUT', '/scopes/b', { restrict: [{ deny: ['alpha'] }] })
    const undo = app.app.tools.register(bareTool('gamma'))
    const changed = await app.ask('GET', path)
    expect(changed.headers.get('etag')).not.toBe(etag)
    undo()
    expect((await app.ask('GET', path)).text).toBe(first.text)
    await app.restart()
    const after = await app.ask('GET', path)
    expect([after.text, after.headers.get('etag')]).toEqual([first.text, etag])
    await app.ask('PUT', '/scopes/a/presentation', { mode: 'code' })
    const refused = await app.ask('GET', path, undefined, { headers: { 'if-none-match': etag } })
    expect([outcome(refused), refused.headers.get('etag')]).toEqual(['409 CODE_RUNTIME_MISSING', null])
  })

  it('code-mode case 2 and 7: native needs no runtime; the other modes fail at assembly, naming the mode', async () => {
    const app = await HomeApp.start({}, ['alpha'])
    await app.ask('PUT', '/scopes/n', {})
    expect((await app.ask('GET', '/scopes/n/prompt')).body).toMatchObject({ mode: 'native', sections: [] })
    for (const mode of ['code', 'both']) {
      await app.ask('PUT', `/scopes/${mode}`, { presentAs: mode })
      const refused = await app.ask('GET', `/scopes/${mode}/prompt`)
      expect([outcome(refused), refused.body.error.message]).toEqual([
        '409 CODE_RUNTIME_MISSING',
        expect.stringContaining(`"${mode}"`)
      ])
      const run = await app.ask('POST', '/invoke', { scope: mode, name: 'run_code', arguments: {} })
      expect([run.status, run.body.isError]).toEqual([200, true])
    }
    for (const scope of ['n', 'global']) {
      const { body } = await app.ask('POST', '/invoke', { scope, name: 'run_code', arguments: {} })
      expect(body.error.info.code).toBe('UNKNOWN_TOOL')
    }
  })

  it('code-mode case 4 and 6: the transport cannot be masked; code collapses direct calls for its scope alone', async () => {
    const app = await HomeApp.start({}, ['echo', 'add'])
    for (const mode of ['native', 'code', 'both']) {
      await app.ask('PUT', `/scopes/${mode}`, { presentAs: mode })
      for (const list of ['allow', 'deny']) {
        const refused = await app.ask('POST', `/scopes/${mode}/restrictions`, { [list]: ['run_code'] })
        expect(outcome(refused)).toBe('422 INVALID_DEFINITION')
      }
    }
    const code = async (scope: string): Promise<string | undefined> =>
      (await app.ask('POST', '/invoke', { scope, name: 'echo' })).body.error?.info.code
    expect([await code('code'), await code('both'), await code('native'), await code('global')]).toEqual([
      'UNKNOWN_TOOL',
      undefined,
      undefined,
      undefined
    ])
  })
})

describe('with code mode mounted', () => {
  const language = { is: 'typescript' }

  async function serve(modes: Record<string, Mode>): Promise<FastifyInstance> {
    const tree = new ScopeTree()
    const transport = bareTool('run_code', {
      parameters: { type: 'object', properties: { code: { type: 'string' } }, required: ['code'] }
    })
    const registry = new Registry({ tree, transport })
    for (const name of ['echo', 'add']) registry.register(tree.global, bareTool(name))
    for (const [id, mode] of Object.entries(modes)) registry.presentAs(tree.create(id), mode)
    const app = fastify()
    onTestFinished(() => app.close())
    await app.register(errors)
    await app.register(validation)
    app.decorate('scopes', tree)
    app.decorate('registry', registry)
    app.decorate('registrations', { used: () => undefined } as never)
    app.decorateRequest('principal')
    app.addHook('onRequest', async (request) => {
      request.principal = { tokenId: '', label: '', role: 'admin', scope: 'global' }
    })
    await app.register(promptRoutes, {
      tools: { order: [] },
      sections: ({ mode, tools }) => sdkSections({ mode, language: language.is, tools })
    })
    return app
  }

  const prompt = async (app: FastifyInstance, scope: string): Promise<any> =>
    (await app.inject({ url: `/scopes/${scope}/prompt` })).json()

  it('code-mode cases 1, 3 and 6: code gives run_code and the rule, both gives all and no rule, native neither', async () => {
    language.is = 'typescript'
    const app = await serve({ code: 'code', both: 'both' })
    const [code, both, native] = await Promise.all(['code', 'both', 'global'].map((scope) => prompt(app, scope)))
    const names = (answer: any): string[] => answer.tools.map(({ name }: { name: string }) => name)
    expect([names(code), names(both), names(native)]).toEqual([
      ['run_code'],
      ['add', 'echo', 'run_code'],
      ['add', 'echo']
    ])
    const sections = (answer: any): unknown[] => answer.sections.map(({ name, order }: any) => [name, order])
    const expected = [
      ['tools:code-only', 99],
      ['tools:sdk', 150]
    ]
    expect([sections(code), sections(both), sections(native)]).toEqual([expected, expected, []])
    expect(code.sections[0].text).not.toBe('')
    expect(both.sections[0].text).toBe('')
    expect(code.sections[1].text).toBe(both.sections[1].text)
    expect(code.sections[1].text).toMatch(/interface ToolArgsMap {\n {2}\/\*\* does add \*\/\n {2}add:/)
    expect(code.sections[1].text).not.toContain('run_code:')
  })

  it.each(['ruby', 'constructor'])(
    'code-mode case 7: a runtime that speaks %s fails, and the message lists what can be told',
    async (spoken) => {
      language.is = spoken
      const app = await serve({ both: 'both' })
      const answer = await prompt(app, 'both')
      expect(answer.error).toMatchObject({
        code: 'CODE_RUNTIME_MISSING',
        message: expect.stringMatching(/typescript.*python/)
      })
    }
  )
})
