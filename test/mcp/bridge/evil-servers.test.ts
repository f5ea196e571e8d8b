import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { HomeApp } from '../../helpers/home-app.ts'
import { processesWith } from '../../helpers/processes.ts'
import { temporaryDirectory } from '../../helpers/temporary-directory.ts'
import { until } from '../../helpers/until.ts'

const program = fileURLToPath(new URL('../../fixtures/evil-mcp/server.js', import.meta.url))

const evil = (mode: string, file: string, more: object = {}): object => ({
  transport: 'stdio',
  command: process.execPath,
  args: [program, mode, file],
  toolCallTimeoutMs: 5_000,
  reconnect: { enabled: false },
  ...more
})

async function open(servers: Record<string, object>, settings: Record<string, string> = {}): Promise<HomeApp> {
  return HomeApp.start({
    'mcp.servers': JSON.stringify(servers),
    'mcp.maxMessageBytes': '8000000',
    'mcp.listChangedIntervalMs': '1',
    'mcp.startupWaitMs': '60000',
    ...settings
  })
}

async function call(app: HomeApp, name: string): Promise<any> {
  return (await app.ask('POST', '/invoke', { name: `mcp__evil__${name}` })).body
}

describe('S8 MCP servers that mean no good', () => {
  it('lists that cannot be taken bring no tools, and say why', async () => {
    const file = join(temporaryDirectory(), 'state')
    const modes: Record<string, RegExp> = {
      'many-tools': /too large|more than 1000 tools/,
      'endless-pages': /more than 1000 (tools|pages)/,
      'same-cursor': /cursor/,
      twice: /"same" is listed twice/,
      'schema-large': /larger than/,
      'schema-deep': /nests deeper/,
      'schema-doubling': /references are written out/,
      'schema-remote': /leads out of the schema/,
      'no-name': /no name/,
      'no-list': /no tools/,
      dies: /cannot start with \[secret\]/
    }
    const app = await open(
      Object.fromEntries(
        Object.keys(modes).map((mode) => [mode, evil(mode, file, { env: { EVIL_SECRET: 'canary-in-stderr' } })])
      )
    )
    const { body, text } = await app.ask('GET', '/mcp-servers')
    for (const { name, state, tools, lastError, connections } of body.servers) {
      expect([name, state, tools, connections]).toEqual([name, 'disconnected', [], 0])
      expect(lastError, name).toMatch(modes[name] as RegExp)
    }
    expect(body.servers).toHaveLength(Object.keys(modes).length)
    expect(text).not.toContain('canary-in-stderr')
    await until(() => processesWith(file).length === 0)
  })

  it('an empty cursor ends a list, and a server that declares no tools and knows no list of them has none', async () => {
    const file = join(temporaryDirectory(), 'state')
    const app = await open({ page: evil('empty-cursor', file), quiet: evil('no-tools', file) })
    const { body } = await app.ask('GET', '/mcp-servers')
    const found = body.servers.map(({ name, state, tools }: any) => [name, state, tools.length])
    expect(found.toSorted()).toEqual([
      ['page', 'ready', 1],
      ['quiet', 'ready', 0]
    ])
  })

  it('answers that cannot be taken fail their call alone, each with its own code', async () => {
    const file = join(temporaryDirectory(), 'state')
    const app = await open({
      evil: evil('calls', file, { toolCallTimeoutMs: 20_000 }),
      brief: evil('calls', file, { toolCallTimeoutMs: 300 })
    })
    const codes: Record<string, string> = {
      'huge-result': 'MCP_TOO_LARGE',
      'huge-id-first': 'MCP_TOO_LARGE',
      'deep-result': 'MCP_TOO_LARGE',
      'no-content': 'MCP_ERROR',
      'content-text': 'MCP_ERROR',
      'rpc-error': 'MCP_ERROR',
      'result-text': 'MCP_ERROR',
      task: 'MCP_TASK_REQUIRED'
    }
    const [{ lastError, state, connections }] = [(await app.ask('GET', '/mcp-servers/evil')).body]
    expect([lastError, state, connections]).toEqual([undefined, 'ready', 1])
    for (const [name, code] of Object.entries(codes)) {
      const { error } = await call(app, name)
      expect([name, error?.info?.code]).toEqual([name, code])
      expect(error.effect).toBe(name === 'task' ? 'none' : 'unknown')
    }
    // F37: the number would be another one; the tool did its work.
    expect((await call(app, 'rounded')).error).toMatchObject({
      info: { code: 'INVALID_TOOL_OUTPUT' },
      effect: 'completed'
    })
    expect((await call(app, 'exact')).value.structuredContent).toEqual({ a: 6.02e23 })
    for (const name of ['never', 'wrong-id']) {
      const { body } = await app.ask('POST', '/invoke', { name: `mcp__brief__${name}` })
      expect([name, body.error?.info?.code]).toEqual([name, 'MCP_TIMEOUT'])
    }
    // What is odd, but can be taken.
    for (const name of ['noise', 'floods']) expect((await call(app, name)).content[0].text).toBe('ok')
    expect((await call(app, 'legacy')).value).toEqual({ content: [{ type: 'text', text: '{"rows":[1]}' }] })
    expect((await call(app, 'blocks')).content[0].text).toBe(
      '[a block that is no object]\n[a block that is no object]\n[a block of type hologram�[2J: not shown]\nleft'
    )
    const proto = await app.ask('POST', '/invoke', { name: 'mcp__evil__proto' })
    expect(proto.text).toContain(
      '"structuredContent":{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}'
    )
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined()
    expect(Object.keys(Object.prototype)).toEqual([])
    expect((await app.ask('GET', '/mcp-servers/evil')).body.state).toBe('ready')

    // It ends within an answer, and is not connected anew here: its tools stay, and fail.
    expect((await call(app, 'mid-frame')).error.info.code).toBe('MCP_CONNECTION_LOST')
    const gone = await call(app, 'noise')
    expect(gone.error).toMatchObject({ info: { code: 'MCP_UNAVAILABLE' }, effect: 'none', retryable: true })
    expect(await app.names('global')).toContain('mcp__evil__noise')
    await app.app.close()
    expect(processesWith(file)).toEqual([])
  })

  it('what one says beyond its pace is read later: its own answer comes late, and nobody else’s', async () => {
    const file = join(temporaryDirectory(), 'state')
    const app = await open(
      { evil: evil('calls', file, { toolCallTimeoutMs: 2_000 }) },
      { 'mcp.messagesPerSecond': '10' }
    )
    // Its 5,000 notices are in front of the answer.
    expect((await call(app, 'floods')).error.info.code).toBe('MCP_TIMEOUT')
    expect((await app.ask('GET', '/mcp-servers/evil')).body).toMatchObject({ state: 'ready', connections: 1 })
    await app.app.close()
    expect(processesWith(file)).toEqual([])
  })

  it('names that mean something elsewhere are names like any other', async () => {
    const pwned = join(temporaryDirectory(), 'pwned')
    const app = await open({ evil: evil('names', pwned) })
    const names = (await app.names('global')).filter((name) => name.startsWith('mcp__'))
    expect(names).toHaveLength(8)
    expect(names.every((name) => /^[A-Za-z0-9_-]{1,64}$/.test(name))).toBe(true)
    expect(names).toEqual(
      expect.arrayContaining([
        'mcp__evil__run_code',
        'mcp__evil__mcp__x__y',
        'mcp__evil____proto__',
        'mcp__evil__constructor'
      ])
    )
    for (const name of names) {
      expect((await app.ask('POST', '/invoke', { name })).body.content).toEqual([{ type: 'text', text: 'ok' }])
    }
    expect(existsSync(pwned)).toBe(false)
  })
})
