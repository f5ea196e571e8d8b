import { once } from 'node:events'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { WebSocket } from 'ws'
import { RunningServer } from '../helpers/running-server.ts'
import { temporaryDirectory } from '../helpers/temporary-directory.ts'
import { until } from '../helpers/until.ts'

const inFile = 'file-"canary"-4711\\x'
const inVariable = 'variable-canary-0815'
const token = 'a-token-of-the-test'
const canary = /canary|a-token-of-the-test/

/** A server that knows two secrets by name, with a tool that asks first. */
async function start(home: string): Promise<RunningServer & { frames: string[] }> {
  writeFileSync(join(home, 'secret.txt'), `${inFile}\n`)
  writeFileSync(
    join(home, 'asked.mjs'),
    `export default ({ definePlugin, defineTool, text }) => definePlugin({ name: 'asked' }, (tools) => {
       tools.register(defineTool({ name: 'asked', description: 'd', parameters: { key: { type: 'string' } },
         output: { schema: { type: 'string' }, render: (args, value) => text(value) }, execute: async () => 'ran' }))
       tools.addHook('preExecute', (exec, next) => exec.name === 'asked' ? { kind: 'ask' } : next())
     })`
  )
  const server = await RunningServer.start(
    home,
    {
      plugins: ['./asked.mjs'],
      log: { level: 'trace' },
      secrets: { files: ['./secret.txt'], environment: ['DEPLOY_KEY'] }
    },
    { env: { DEPLOY_KEY: inVariable }, launcher: ['sh', '-c', `exec "$0" "$@" 2>>'${home}/log'`] }
  )
  const socket = new WebSocket(server.url.replace('http', 'ws') + '/events', 'toolwright.v1', {
    headers: { authorization: `Bearer ${token}` }
  })
  onTestFinished(() => socket.terminate())
  const frames: string[] = []
  socket.on('message', (data: Buffer) => frames.push(data.toString()))
  await once(socket, 'open')
  socket.send(JSON.stringify({ type: 'subscribe', id: 'a', after: -1 }))
  return Object.assign(server, { frames })
}

const leaks = (home: string): string[] =>
  readdirSync(join(home, 'data'), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .concat(join(home, 'log'))
    .filter((file) => canary.test(readFileSync(file, 'latin1')))

describe('S7 secrets that the configuration names (api.md §9)', () => {
  it('S7 are nowhere: not in answers, events, frames, exports, the log or any file, nor after a replay', async () => {
    const home = temporaryDirectory()
    const server = await start(home)
    const command = `cat ${join(home, 'secret.txt')}; echo ${inVariable}; echo ${token} >&2`
    const call = { name: 'bash', callId: 'c1', arguments: { command, description: `Show ${inVariable}` } }
    const first = await server.request('/invoke', call)
    expect(first.body.content[0].text).toBe('[secret]\n[secret]\n[stderr]\n[secret]\n[exit code: 0]')
    const again = await server.request('/invoke', call)
    expect(again.body).toEqual({ ...first.body, replayed: true })
    const failed = await server.request('/invoke', { name: 'read', arguments: { path: `/none/${inVariable}` } })
    expect(failed.body).toMatchObject({ isError: true })
    const refused = await server.request('/invoke', { name: 'bash', arguments: { [inVariable]: inFile } })
    // Arguments are compared as they were before anything was struck out.
    const other = await server.request('/invoke', { ...call, arguments: { command: '[secret]', description: 'Show' } })
    expect(other.body.error.code).toBe('CALL_CONFLICT')
    const events = await server.request('/sessions/default/events')
    await until(() => server.frames.some((frame) => frame.includes(`"seq":${events.body.head}`)))
    const shown = [first, again, failed, refused, events].map(({ body }) => JSON.stringify(body))
    expect([...shown, ...server.frames].filter((text) => canary.test(text))).toEqual([])
    await server.end('SIGTERM')
    expect(leaks(home)).toEqual([])
  })

  it('a call with one in its arguments runs when allowed, and cannot wait over a restart: TOOL_NOT_STARTED', async () => {
    const home = temporaryDirectory()
    const first = await start(home)
    const ask = (callId: string, key: string) => first.request('/invoke', { name: 'asked', callId, arguments: { key } })
    const pending = async (server: RunningServer): Promise<any[]> =>
      (await server.request('/approvals?state=pending')).body.approvals
    const allowed = ask('c0', inVariable)
    await until(async () => (await pending(first)).length === 1)
    const [{ id }] = await pending(first)
    await first.request(`/approvals/${id}`, { decision: 'allow' })
    expect((await allowed).body).toMatchObject({ value: 'ran' })
    const left = Promise.allSettled([ask('c1', inVariable), ask('c2', 'plain')])
    await until(async () => (await pending(first)).length === 2)
    await first.end('SIGKILL')
    await left
    const second = await start(home)
    expect((await second.request('/calls/default/c1')).body).toMatchObject({
      state: 'done',
      result: { isError: true, error: { info: { code: 'TOOL_NOT_STARTED' }, effect: 'none', retryable: true } }
    })
    await until(async () => (await pending(second)).length === 1)
    expect(await pending(second)).toMatchObject([{ callId: 'c2', arguments: { key: 'plain' } }])
    expect(leaks(home)).toEqual([])
  })

  it('one that is not there, or too short to be struck out, stops the boot', async () => {
    const starting = (secrets: object) =>
      RunningServer.start(temporaryDirectory(), { secrets }, { env: { SHORT: 'abc' } })
    await expect(starting({ files: ['/none'] })).rejects.toThrow('the server ended with 78')
    await expect(starting({ environment: ['SHORT'] })).rejects.toThrow('the server ended with 78')
  })
})
