import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { beforeEach, describe, expect, it } from 'vitest'
import { HomeApp, outcome } from '../../helpers/home-app.ts'
import { processesWith, uniqueSleep } from '../../helpers/processes.ts'
import { temporaryDirectory } from '../../helpers/temporary-directory.ts'
import { until } from '../../helpers/until.ts'

const program = fileURLToPath(new URL('../../fixtures/mcp/stdio-server.js', import.meta.url))

/** A server of the fixture, and what to expect of it: a line in `starts` for each of its processes. */
function fixture(more: object = {}): { definition: object; starts: string } {
  const starts = join(temporaryDirectory(), 'starts')
  return { definition: { transport: 'stdio', command: process.execPath, args: [program, starts], ...more }, starts }
}

const startsOf = (file: string): number => readFileSync(file, 'utf8').trim().split('\n').length

async function open(servers: Record<string, object>, settings: Record<string, string> = {}): Promise<HomeApp> {
  return HomeApp.start({ 'mcp.servers': JSON.stringify(servers), 'mcp.startupWaitMs': '60000', ...settings })
}

async function call(app: HomeApp, name: string, args?: unknown, more: object = {}): Promise<any> {
  const body = { name: `mcp__srv__${name}`, ...(args === undefined ? {} : { arguments: args }), ...more }
  return (await app.ask('POST', '/invoke', body)).body
}

const textOf = (result: any): string => result.content.map(({ text }: { text: string }) => text).join('|')

describe('a stdio server (backends.md §10)', () => {
  let app: HomeApp
  let starts: string

  beforeEach(() => {
    process.env['MCP_AMBIENT_TOKEN'] = 'ambient'
  })

  it('is a server like any other, from its first call to its end', async () => {
    const served = fixture({ env: { MCP_GIVEN: 'given-secret' }, toolCallTimeoutMs: 30_000 })
    starts = served.starts
    app = await open({ srv: served.definition, 'srv-2': fixture().definition }, { 'mcp.registerOverHttp': 'false' })
    const names = await app.names('global')

    // C73: names.
    expect(names).toContain('mcp__srv__greet')
    expect(names).toContain('mcp__srv-2__greet')
    expect(names.filter((name) => /^mcp__srv__admin_reset_[0-9a-f]{12}$/.test(name))).toHaveLength(1)
    const long = names.filter((name) => name.startsWith('mcp__srv__a_rather_long'))
    expect(long.map((name) => [name.length, /_[0-9a-f]{12}$/.test(name)])).toEqual([
      [64, true],
      [64, true]
    ])
    expect(textOf(await call(app, 'greet', { name: 'you' }))).toBe('hello you')
    const reset = names.find((name) => name.startsWith('mcp__srv__admin_reset_')) as string
    expect(textOf((await app.ask('POST', '/invoke', { name: reset })).body)).toBe('reset')

    // F45: the right one of two that share their first eighty characters.
    const answers = await Promise.all(long.map((name) => app.ask('POST', '/invoke', { name })))
    expect(answers.map(({ body }) => textOf(body)).sort()).toEqual(['created', 'deleted'])

    // C74, F43: results and arguments.
    expect(textOf(await call(app, 'two'))).toBe('one\ntwo')
    const failing = await call(app, 'failing')
    expect(failing).toMatchObject({
      isError: true,
      error: { info: { code: 'MCP_TOOL_FAILED', name: 'McpBridgeError' }, effect: 'unknown' }
    })
    expect(textOf(failing)).toContain('no such table')
    expect(textOf(await call(app, 'link'))).toMatch(/notes.*demo:\/\/notes\/1/)
    expect(textOf(await call(app, 'empty'))).not.toBe('')
    for (const args of [undefined, null, {}, [1], 'text']) expect(textOf(await call(app, 'no-input', args))).toBe('{}')

    // C77: blocks that cannot be shown, and the schema of a value.
    const mixed = await call(app, 'mixed')
    expect(mixed.content).toHaveLength(1)
    expect(textOf(mixed)).toMatch(
      /^look:\n\[image, image\/png.*\]\n\[audio.*\]\n\[embedded resource demo:\/\/r.*\]\nend$/
    )
    expect(mixed.value.content).toHaveLength(5)
    expect(mixed.value.content[1].data).toBe('iVBORw0KGgo=')
    expect((await call(app, 'structured', { result: { x: 1 } })).value).toEqual({
      content: [{ type: 'text', text: 'a point' }],
      structuredContent: { x: 1 }
    })
    for (const args of [{}, { result: { x: 'one' } }, { result: { x: 1, y: 2 } }]) {
      expect((await call(app, 'structured', args)).error.info.code).toBe('INVALID_TOOL_OUTPUT')
    }
    expect((await call(app, 'loose')).value.structuredContent).toEqual({ x: 'not even a number' })

    // F57, F59: a loud server answers; 5 MB come whole.
    expect(textOf(await call(app, 'loud'))).toBe('said it')
    const big = await call(app, 'big', { bytes: 5_000_000 })
    expect(big.value.content[0].text).toHaveLength(5_000_000)

    // Its environment is what was given, and nothing ambient that looks like a secret.
    expect(textOf(await call(app, 'secret'))).toBe('terces-nevig,')
    expect(startsOf(starts)).toBe(1)

    // GET /tools and GET /mcp-servers.
    const tool = (await app.ask('GET', '/tools/mcp__srv__greet')).body
    expect(tool).toMatchObject({
      origin: 'mcp',
      executor: { kind: 'mcp', server: 'srv', tool: 'greet' },
      limits: { concurrency: 'exclusive' }
    })
    expect(tool.limits.timeoutMs).toBeUndefined()
    const listed = await app.ask('GET', '/mcp-servers')
    expect(listed.body.servers.map(({ name, state, origin }: any) => [name, state, origin])).toEqual([
      ['srv', 'ready', 'configuration'],
      ['srv-2', 'ready', 'configuration']
    ])
    expect(listed.text).not.toContain('given-secret')
    expect(listed.body.servers[0]).toMatchObject({
      env: ['MCP_GIVEN'],
      toolCallTimeoutMs: 30_000,
      server: { name: 'fixture' }
    })
    expect(outcome(await app.ask('GET', '/mcp-servers/other'))).toBe('404 UNKNOWN_MCP_SERVER')
    const agent = await app.tokenFor('agent', 'global')
    expect(outcome(await app.ask('GET', '/mcp-servers', undefined, { token: agent }))).toBe('403 FORBIDDEN')
    expect(outcome(await app.ask('PUT', '/mcp-servers/new', served.definition))).toBe('403 FORBIDDEN')

    // F51: an abort leaves the link as it is, and the server hears of it.
    const aborted = app.ask('POST', '/invoke', { name: 'mcp__srv__sleep', arguments: { ms: 600_000 }, callId: 'long' })
    await until(async () => textOf(await call(app, 'sleeping')) === '1')
    await app.ask('POST', '/calls/default/long/cancel')
    expect((await aborted).body.error.info.code).toBe('ABORTED')
    await until(async () => textOf(await call(app, 'cancelled')) === '1')
    expect(startsOf(starts)).toBe(1)

    // F55: it dies within a call.
    const died = await call(app, 'exit')
    expect(died.error).toMatchObject({ info: { code: 'MCP_CONNECTION_LOST' }, effect: 'unknown' })
    const [first] = readFileSync(starts, 'utf8').split('\n')
    expect(textOf(await call(app, 'pid'))).not.toBe(first)
    expect(startsOf(starts)).toBe(2)

    await app.app.close()
    expect(processesWith(starts)).toEqual([])
  })

  it('what it leaves behind neither holds up the news of its end nor outlives it', async () => {
    const seconds = uniqueSleep()
    const script = `setsid sleep ${seconds} & exec '${process.execPath}' '${program}'`
    app = await open({ srv: { transport: 'stdio', command: '/bin/bash', args: ['-c', script] } })
    const sleepers = (): string[] => processesWith(seconds).filter((command) => command.startsWith('sleep'))
    expect(sleepers()).toHaveLength(1)
    expect((await call(app, 'exit')).error.info.code).toBe('MCP_CONNECTION_LOST')
    expect(textOf(await call(app, 'greet', { name: 'again' }))).toBe('hello again')
    expect(sleepers()).toHaveLength(1)
    await app.app.close()
    expect(sleepers()).toEqual([])
  })

  it('F15 calls that come together after its end share one new process', async () => {
    const served = fixture()
    app = await open({ srv: served.definition })
    await call(app, 'exit')
    const answers = await Promise.all(Array.from({ length: 20 }, () => call(app, 'pid', {}, { session: undefined })))
    expect(new Set(answers.map(textOf)).size).toBe(1)
    expect(startsOf(served.starts)).toBe(2)
  })

  it('F49 a call that takes too long for it is told so, and the next one is served', async () => {
    app = await open({ srv: fixture({ toolCallTimeoutMs: 300 }).definition })
    const late = await call(app, 'sleep', { ms: 600_000 })
    expect(late.error).toMatchObject({ info: { code: 'MCP_TIMEOUT' }, effect: 'unknown' })
    expect(textOf(await call(app, 'greet', { name: 'again' }))).toBe('hello again')
    expect(textOf(await call(app, 'cancelled'))).toBe('1')
  })

  it('what does not start is waited for no longer than is set, or fails the start where that was asked', async () => {
    const dead = {
      transport: 'stdio',
      command: process.execPath,
      args: ['-e', 'process.stderr.write("no config, but hush-hush\\n");process.exit(3)'],
      env: { KEY: 'hush-hush' }
    }
    const mute = { transport: 'stdio', command: process.execPath, args: ['-e', 'setInterval(() => {}, 1000)'] }
    const missing = { transport: 'stdio', command: 'there-is-no-such-program' }
    app = await open({ dead, mute, missing }, { 'mcp.startupWaitMs': '500' })
    const states = (await app.ask('GET', '/mcp-servers')).body.servers
    expect(states.map(({ name, state }: any) => [name, state])).toEqual([
      ['dead', expect.stringMatching(/^(disconnected|connecting)$/)],
      ['missing', expect.stringMatching(/^(disconnected|connecting)$/)],
      ['mute', 'connecting']
    ])
    await until(async () => (await app.ask('GET', '/mcp-servers/dead')).body.lastError !== undefined)
    expect((await app.ask('GET', '/mcp-servers/dead')).body.lastError).toMatch(/no config, but \[secret\]/)
    await expect(open({ dead: { ...dead, failOnStartupError: true } })).rejects.toThrow(/MCP server "dead".*no config/)
    await expect(open({ bad: { ...mute, reconnect: { initialDelayMs: 9, maxDelayMs: 1 } } })).rejects.toThrow(
      /initialDelayMs/
    )
  })
})
