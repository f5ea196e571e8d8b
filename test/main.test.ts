import { readFileSync, statSync } from 'node:fs'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { execa } from 'execa'
import { describe, expect, it, onTestFinished } from 'vitest'
import { WebSocket } from 'ws'
import { built } from './helpers/built.ts'
import { temporaryDirectory } from './helpers/temporary-directory.ts'
import { until } from './helpers/until.ts'

function start(
  args: string[] = [],
  { env = {}, nodeArgs = [] }: { env?: Record<string, string>; nodeArgs?: string[] } = {}
) {
  const home = temporaryDirectory()
  const child = execa('node', [...nodeArgs, built.main, '--port', '0', ...args], {
    env: { PATH: process.env['PATH'], HOME: home, TOOLWRIGHT_HOME: home, ...env },
    extendEnv: false,
    reject: false,
    // A start on a busy machine may take longer than execa would wait before it kills.
    forceKillAfterDelay: false
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  let stdout = ''
  child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString()))
  return {
    child,
    home,
    printed: () => stdout,
    /** The address, once the server listens. */
    listening: async (): Promise<string> => {
      await until(() => stdout.endsWith('\n') && stdout.includes('Try: '), 60_000)
      return /listening on (\S+)/.exec(stdout)?.[1] as string
    }
  }
}

// A start takes its time on a busy machine.
describe('the process', { timeout: 90_000 }, () => {
  it('says where it listens, where the token is, and a line to paste that works', async () => {
    const { home, child, listening, printed } = start()
    const url = await listening()
    expect(printed()).toContain(`The admin token is in ${home}/admin-token`)
    expect(printed()).toContain('not confined')
    expect(statSync(join(home, 'admin-token')).mode & 0o777).toBe(0o600)
    const line = /^Try: (.*)$/m.exec(printed())?.[1] as string
    expect(line).toContain(url)
    const { stdout } = await execa('bash', ['-c', line], { env: { HOME: home } })
    expect(JSON.parse(stdout)).toMatchObject({
      isError: false,
      content: [{ type: 'text', text: expect.stringContaining('hello') }]
    })
    child.kill('SIGTERM')
    const { exitCode, stdout: all, stderr } = await child
    expect(exitCode).toBe(0)
    // Where no program can be confined, one more line says so.
    const lines = all.trimEnd().split('\n')
    expect(lines.filter((printed) => !printed.startsWith('Programs '))).toHaveLength(4)
    const token = readFileSync(join(home, 'admin-token'), 'utf8').trim()
    expect(all + stderr).not.toContain(token)
    for (const logged of stderr.trimEnd().split('\n')) expect(JSON.parse(logged)).toHaveProperty('level')
  })

  it('says that programs are not confined where they are not (code-mode.md §15.2)', async () => {
    const { listening, printed } = start([], { env: { TOOLWRIGHT_CODE_RUNTIME_BACKEND: 'worker-thread' } })
    await listening()
    await until(() => printed().includes('Programs run as this user and are not confined'), 60_000)
  })

  it('a preset token is taken and never printed', async () => {
    const { listening, printed, child } = start([], {
      env: { TOOLWRIGHT_TOKEN: 'preset-canary', TOOLWRIGHT_LOG_LEVEL: 'trace' }
    })
    const url = await listening()
    const answer = await fetch(`${url}/tokens`, { headers: { authorization: 'Bearer preset-canary' } })
    expect(answer.status).toBe(200)
    expect((await fetch(`${url}/tokens?token=preset-canary`)).status).toBe(400)
    child.kill('SIGTERM')
    const { stderr } = await child
    expect(printed() + stderr).not.toContain('canary')
  })

  it.each(['SIGTERM', 'SIGINT'] as const)(
    '%s drains: the running call is answered, sockets close with 1001, exit 0',
    async (signal) => {
      const { home, child, listening } = start()
      const url = await listening()
      const headers = {
        authorization: `Bearer ${readFileSync(join(home, 'admin-token'), 'utf8').trim()}`,
        'content-type': 'application/json'
      }
      const socket = new WebSocket(`${url.replace('http', 'ws')}/events`, 'toolwright.v1', { headers })
      const closed = new Promise<number>((resolve) => socket.on('close', (code) => resolve(code)))
      await new Promise((resolve) => socket.once('open', resolve))
      const call = fetch(`${url}/invoke`, {
        method: 'POST',
        headers,
        body: JSON.stringify({
          name: 'bash',
          arguments: { command: `touch ${home}/started; sleep 1; echo done`, description: 'x' }
        })
      })
      await until(() => statSync(`${home}/started`, { throwIfNoEntry: false }) !== undefined, 30_000)
      child.kill(signal)
      const answer = await call
      expect(answer.status).toBe(200)
      expect(await answer.json()).toMatchObject({
        isError: false,
        content: [{ text: expect.stringContaining('done') }]
      })
      expect(await closed).toBe(1001)
      expect((await child).exitCode).toBe(0)
    }
  )

  it('a second signal ends it at once', async () => {
    const { home, child, listening } = start()
    const url = await listening()
    const headers = {
      authorization: `Bearer ${readFileSync(join(home, 'admin-token'), 'utf8').trim()}`,
      'content-type': 'application/json'
    }
    const call = fetch(`${url}/invoke`, {
      method: 'POST',
      headers,
      body: JSON.stringify({
        name: 'bash',
        arguments: { command: `touch ${home}/started; sleep 15`, description: 'x' }
      })
    }).catch((error: Error) => error)
    await until(() => statSync(`${home}/started`, { throwIfNoEntry: false }) !== undefined, 30_000)
    child.kill('SIGTERM')
    await until(async () => (await fetch(`${url}/health/ready`)).status === 503)
    child.kill('SIGTERM')
    expect((await child).exitCode).toBe(1)
    expect(await call).toBeInstanceOf(Error)
  })

  it.each([
    ['an error that nobody caught', 'setImmediate(() => { throw new Error("boom") })'],
    ['a rejection that nobody handled', 'Promise.reject(new Error("boom"))']
  ])('%s is logged and takes the same way, exit 1', async (_name, code) => {
    const file = Buffer.from(`process.on('SIGWINCH', () => { ${code} })`).toString('base64')
    const { child, listening } = start([], { nodeArgs: ['--import', `data:text/javascript;base64,${file}`] })
    await listening()
    child.kill('SIGWINCH')
    const { exitCode, stderr } = await child
    expect(exitCode).toBe(1)
    expect(stderr).toContain('boom')
    expect(stderr).toContain('an error was caught by nobody')
  })

  it('R6 a signal while it starts ends it, exit 0', async () => {
    const hold = Buffer.from(`process.kill(process.pid, 'SIGTERM')`).toString('base64')
    const { child } = start([], { nodeArgs: ['--import', `data:text/javascript;base64,${hold}`] })
    // Before its handlers are there the signal's default ends the process; after, the graceful way does.
    const { exitCode, signal } = await child
    expect([exitCode, signal]).toEqual([undefined, 'SIGTERM'])

    const late = start()
    await until(() => statSync(join(late.home, 'admin-token'), { throwIfNoEntry: false }) !== undefined, 60_000)
    late.child.kill('SIGTERM')
    expect((await late.child).exitCode).toBe(0)
  })

  it('an address in use is said in a line, exit 1', async () => {
    const blocker = createServer().listen(0, '127.0.0.1')
    await new Promise((resolve) => blocker.once('listening', resolve))
    onTestFinished(() => void blocker.close())
    const { port } = blocker.address() as { port: number }
    const { child } = start(['--port', String(port)])
    const { exitCode, stderr, stdout } = await child
    expect([exitCode, stdout]).toEqual([1, ''])
    expect(stderr).toMatch(/^toolwright: .*EADDRINUSE/m)
    expect(stderr).not.toMatch(/^\s+at /m)
  })

  it('a second server on the directory is refused, exit 78', async () => {
    const { home, listening } = start()
    await listening()
    const { child } = start([], { env: { TOOLWRIGHT_HOME: home } })
    const { exitCode, stderr } = await child
    expect(exitCode).toBe(78)
    expect(stderr).toMatch(/^toolwright: /m)
  })
})
