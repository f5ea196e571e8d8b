import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import type { Progress } from '@modelcontextprotocol/sdk/types.js'
import { getDefaultEnvironment, StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { expect, it, onTestFinished } from 'vitest'
import { built } from '../helpers/built.ts'
import { bareTool } from '../helpers/bare-tool.ts'
import { startApp, type TestApp } from '../helpers/app.ts'
import { HomeApp } from '../helpers/home-app.ts'
import { initialize, listen, toolCall } from '../helpers/mcp-client.ts'
import { until } from '../helpers/until.ts'

const command = [built.cli, 'mcp']

/** The command as a process, spoken to in lines. */
class Lines {
  readonly child: ChildProcess
  stdout = ''
  stderr = ''

  constructor(args: readonly string[], token: string | undefined) {
    const env = {
      ...getDefaultEnvironment(),
      HOME: '/nonexistent',
      ...(token !== undefined && { TOOLWRIGHT_TOKEN: token })
    }
    this.child = spawn(process.execPath, [...command, ...args], { env })
    this.child.stdout?.on('data', (chunk: Buffer) => (this.stdout += String(chunk)))
    this.child.stderr?.on('data', (chunk: Buffer) => (this.stderr += String(chunk)))
    onTestFinished(() => void this.child.kill('SIGKILL'))
  }

  say(...messages: unknown[]): void {
    const lines = messages.map((each) => (typeof each === 'string' ? each : JSON.stringify(each)))
    this.child.stdin?.write(lines.map((line) => `${line}\n`).join(''))
  }

  /** All that it has said, each line a JSON-RPC message. */
  get messages(): any[] {
    return this.stdout.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line)]))
  }

  async answer(id: unknown): Promise<any> {
    await until(() => this.stdout.endsWith('\n') && this.messages.some((message) => message.id === id), 60_000)
    return this.messages.find((message) => message.id === id)
  }
}

const urlOf = (app: TestApp): string => `http://127.0.0.1:${app.served.port}`

it('the official client over stdio: lists, calls, hears of progress and changes, cancels, and ends the session', async () => {
  const app = await startApp()
  await app.served.call('/scopes/a', { method: 'PUT', json: {} })
  let goOn = (): void => undefined
  const heard = new Promise<void>((resolve) => (goOn = resolve))
  app.app.tools.register(
    bareTool('talk', {
      execute: async (_args, exec) => {
        exec.progress('one')
        exec.progress('two')
        // The official client loses progress that it reads in one piece with the answer.
        await heard
        return 'said'
      }
    })
  )
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [...command, '--url', urlOf(app), '--scope', 'a'],
    env: { ...getDefaultEnvironment(), TOOLWRIGHT_TOKEN: await app.served.tokenFor('agent', 'a') }
  })
  const client = new Client({ name: 'test', version: '1' })
  const told = listen(client)
  onTestFinished(() => client.close())
  await client.connect(transport)
  expect((await client.listTools()).tools.map(({ name }) => name)).toContain('talk')
  const progress: unknown[] = []
  const onprogress = ({ message }: Progress): void => void progress.push(message)
  const talk = client.callTool({ name: 'talk' }, undefined, { onprogress })
  await until(() => progress.length === 2)
  goOn()
  expect(await talk).toMatchObject({ structuredContent: { value: 'said' } })
  expect(progress).toEqual(['one', 'two'])
  app.app.tools.register(bareTool('later'))
  await until(() => told.includes('list_changed'))
  const controller = new AbortController()
  const call = client.callTool({ name: 'coop' }, undefined, { signal: controller.signal })
  await until(() => app.trace.length === 1)
  controller.abort()
  await expect(call).rejects.toThrow()
  await until(() => app.app.callEngine.calls.size === 0)
  expect(app.app.mcpSessions.size).toBe(1)
  await client.close()
  await until(() => app.app.mcpSessions.size === 0)
}, 120_000)

it('lines are handed on as they are; only the protocol is on standard output; it ends with its input', async () => {
  const app = await startApp()
  app.boom = ({ arguments: args }) => args
  const lines = new Lines(['--url', urlOf(app)], app.served.admin)
  // All at once: the session is there before what belongs to it is sent.
  const exact =
    '{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"boom","arguments":{"n":9007199254740993}}}'
  lines.say(initialize, { jsonrpc: '2.0', method: 'notifications/initialized' }, 'no json', '{"a":1}', '', exact)
  lines.say(toolCall(3, 'boom', { text: 'a\u2028é' }))
  lines.say('{"jsonrpc":"2.0","id":4,"method":"tools/list","params":{"__proto__":{}}}')
  expect((await lines.answer(0)).result.serverInfo.name).toBe('toolwright')
  expect((await lines.answer(2)).result).toMatchObject({ isError: true, _meta: { code: 'INVALID_ARGS' } })
  expect((await lines.answer(3)).result.structuredContent).toEqual({ value: { text: 'a\u2028é' } })
  expect((await lines.answer(4)).error.message).toContain('BAD_JSON')
  lines.say(toolCall(5, 'gate', { id: 'g' }))
  await app.entered('g')
  const exited = once(lines.child, 'exit')
  lines.child.stdin?.end()
  app.release('g')
  expect((await lines.answer(5)).result.structuredContent).toEqual({ value: 'done-g' })
  expect(await exited).toEqual([0, null])
  await until(() => app.app.mcpSessions.size === 0)
  expect(lines.messages.filter(({ id }) => id === null).map(({ error }) => error.code)).toEqual([-32700, -32700])
  expect(lines.messages).toHaveLength(7)
}, 120_000)

it('goes on in a new session after a restart, says why it cannot, and wants a token', async () => {
  const home = await HomeApp.start({}, ['greet'])
  const port = (): number => (home.app.server.address() as { port: number }).port
  const first = port()
  const { token } = await home.app.tokens.create({ label: 't', role: 'admin', scope: 'global' })
  const lines = new Lines(['--url', `http://127.0.0.1:${first}`], token)
  lines.say(initialize, toolCall(1, 'greet'))
  expect((await lines.answer(1)).result.structuredContent).toEqual({ value: 'greet-ok' })
  await home.app.mcpSessions.close()
  lines.say(toolCall(2, 'greet'))
  expect((await lines.answer(2)).result.structuredContent).toEqual({ value: 'greet-ok' })
  expect(lines.messages).toHaveLength(3)
  expect(lines.stderr).toContain('another one has begun')
  await home.app.close()
  lines.say(toolCall(3, 'greet'))
  expect((await lines.answer(3)).error.message).toContain('does not answer')
  const ended = once(lines.child, 'exit')
  lines.child.kill('SIGTERM')
  expect(await ended).toEqual([0, null])

  const without = new Lines(['--url', `http://127.0.0.1:${first}`], undefined)
  expect(await once(without.child, 'exit')).toEqual([77, null])
  expect([without.stdout, without.stderr]).toEqual(['', expect.stringContaining('no token')])
}, 120_000)
