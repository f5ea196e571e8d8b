import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { join } from 'node:path'
import { spawn as spawnInTerminal } from 'node-pty'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { built } from '../helpers/built.ts'
import { CommandServer } from '../helpers/command-line.ts'
import { temporaryDirectory } from '../helpers/temporary-directory.ts'
import { until } from '../helpers/until.ts'

// What only a process of its own shows: signals, pipes, a terminal, standard input, and a server that goes away meanwhile.
let server: CommandServer

beforeAll(async () => {
  server = await CommandServer.start({ allowedHosts: '127.0.0.1:*', 'drain.drainMs': '500' })
})

afterAll(() => server.end())

const cli = [built.cli]
const waitMs = 50_000

/** The command line in a process, with what it has written so far. */
function start(words: string[], env: Record<string, string> = {}) {
  const child: ChildProcess = spawn(process.execPath, [...cli, ...words], { env: { ...server.env, ...env } })
  onTestFinished(() => void child.kill('SIGKILL'))
  const seen = { stdout: '', stderr: '' }
  child.stdout?.on('data', (chunk: Buffer) => (seen.stdout += String(chunk)))
  child.stderr?.on('data', (chunk: Buffer) => (seen.stderr += String(chunk)))
  const ended = once(child, 'close').then(([code, signal]) => (code ?? signal) as number | string)
  return { child, seen, ended }
}

const script = (command: string): Promise<number | string> => {
  const env = { ...server.env, CLI: [process.execPath, ...cli].map((word) => `'${word}'`).join(' ') }
  const child = spawn('bash', ['-c', command], { env, stdio: ['ignore', 'ignore', 'inherit'] })
  onTestFinished(() => void child.kill('SIGKILL'))
  return once(child, 'close').then(([code]) => code as number)
}

/** A way to the server that drops everything under way when it is told to. */
async function breakableWay(): Promise<{ url: string; drop: () => void }> {
  const open = new Set<Socket>()
  const way = createServer((near) => {
    const far = connect(server.port, '127.0.0.1')
    for (const socket of [near, far]) {
      open.add(socket)
      socket.on('error', () => undefined)
      socket.on('close', () => (open.delete(socket), near.destroy(), far.destroy()))
    }
    near.pipe(far).pipe(near)
  }).listen(0, '127.0.0.1')
  await once(way, 'listening')
  const drop = (): void => open.forEach((socket) => socket.destroy())
  onTestFinished(() => (way.close(), drop()))
  return { url: `http://127.0.0.1:${(way.address() as AddressInfo).port}`, drop }
}

describe('a process of its own', { timeout: 120_000 }, () => {
  it('F71: events --follow shows each event once and in order, over lost connections and a restart of the server', async () => {
    const { url, drop } = await breakableWay()
    const append = (text: string) =>
      server.app.invoke({ name: 'echo', arguments: { text }, session: 'followed' }).then(() => undefined)
    await append('before')
    const words = ['events', '--follow', '--url', url, '--type', 'tool/*', '--json']
    const live = start(words)
    const all = start([...words, '--after=-1', '--session', 'followed'])
    await until(() => server.app.app.connections.size === 2, waitMs)
    await until(() => all.seen.stdout.includes('before'), waitMs)

    for (let n = 0; n < 30; n += 1) {
      await append(`n${n}`)
      if (n % 10 === 5) drop()
    }
    await server.close()
    await server.open()
    await append('after')
    await until(() => live.seen.stdout.includes('after') && all.seen.stdout.includes('after'), waitMs)
    await append('last')
    await until(() => live.seen.stdout.includes('last') && all.seen.stdout.includes('last'), waitMs)

    const eventsOf = ({ seen }: typeof live): any[] =>
      seen.stdout
        .split('\n')
        .slice(0, -1)
        .map((line) => JSON.parse(line))
        .filter(({ type, position }) => position !== undefined && type === 'tool/call')
    const textsOf = (ran: typeof live) => eventsOf(ran).map(({ data }) => JSON.parse(data.arguments).text)
    const expected = [...Array.from({ length: 30 }, (_, n) => `n${n}`), 'after', 'last']
    expect(textsOf(live)).toEqual(expected)
    expect(textsOf(all)).toEqual(['before', ...expected])
    expect(live.seen.stderr).toMatch(/^(toolwright: the connection was lost; trying again\n)+$/)
    live.child.kill('SIGINT')
    expect(await live.ended).toBe('SIGINT')
  })

  it('follow ends when its token does', async () => {
    const { token, info } = await server.app.app.tokens.create({ label: '', role: 'observer', scope: 'global' })
    const { ended, seen } = start(['events', '--follow', '--json'], { TOOLWRIGHT_TOKEN: token })
    await until(() => server.app.app.connections.size > 0, waitMs)
    await until(async () => {
      await server.app.invoke({ name: 'echo', session: 'seen' })
      return seen.stdout !== ''
    }, waitMs)
    await server.app.app.tokens.revoke(info.id)
    expect([await ended, seen.stderr]).toEqual([77, expect.stringContaining('UNAUTHENTICATED')])
  })

  it('Ctrl-C cancels the call and shows its end; a second one does not wait', async () => {
    const session = 'interrupted'
    const polite = start(['invoke', 'coop', '--session', session, '--call-id', 'polite', '--json'])
    await until(() => server.app.trace.includes('body:polite'), waitMs)
    polite.child.kill('SIGINT')
    expect(await polite.ended).toBe(130)
    expect(JSON.parse(polite.seen.stdout)).toMatchObject({
      callId: 'polite',
      isError: true,
      error: { info: { code: 'ABORTED' } }
    })

    // The session is one that the command does not name: it learns it from the events.
    const stubborn = start(['invoke', 'gate', '--arg', 'id=g', '--call-id', 'stubborn'])
    await until(() => server.app.trace.includes('body:stubborn'), waitMs)
    stubborn.child.kill('SIGINT')
    await until(() => stubborn.seen.stderr.includes('cancelling'), waitMs)
    stubborn.child.kill('SIGINT')
    expect(await stubborn.ended).toBe(130)
    expect(stubborn.seen.stderr).toContain('dropped')
    server.app.release('g')
    await until(async () => (await server.app.report('stubborn')).body.state === 'done', waitMs)
    expect((await server.app.report('stubborn')).body.result?.isError).toBe(true)
  })

  it('a call of a process that is gone is aborted', async () => {
    const { child, ended } = start(['invoke', 'coop', '--session', 'killed'])
    const calls = async () => (await server.app.events('killed').catch(() => [])).map(({ type }) => type)
    await until(async () => (await calls()).includes('tool/call'), waitMs)
    child.kill('SIGKILL')
    expect(await ended).toBe('SIGKILL')
    await until(async () => (await calls()).includes('tool/result'), waitMs)
  })

  it('whoever closes the pipe ends the command without a word', async () => {
    for (let n = 0; n < 3; n += 1) {
      await server.app.invoke({ name: 'echo', arguments: { text: 'x'.repeat(60_000) }, session: 'long' })
    }
    const errors = join(temporaryDirectory(), 'errors')
    const command = `eval "$CLI events --session long --json" 2>${errors} | head -c 10 >/dev/null; exit \${PIPESTATUS[0]}`
    expect([await script(command), readFileSync(errors, 'utf8')]).toEqual([141, ''])
  })

  it('standard input holds arguments of any size', async () => {
    const file = join(temporaryDirectory(), 'arguments.json')
    writeFileSync(file, JSON.stringify({ text: 'y'.repeat(3_000_000) }))
    const count = `eval "$CLI invoke echo - --json < ${file}" | tr -cd y | wc -c`
    expect(await script(`test "$(${count})" -ge 3000000`)).toBe(0)
    expect(await script('echo "{" | eval "$CLI invoke echo -" 2>/dev/null')).toBe(64)
  })

  it('a real terminal gets colours, and nothing that a tool wrote to act on it', async () => {
    await server.app.invoke({ name: 'echo', arguments: { text: '\x1b]52;c;eA==\x07' }, session: 'shown' })
    const inTerminal = async (words: string[], env: Record<string, string> = {}) => {
      const terminal = spawnInTerminal(process.execPath, [...cli, ...words], {
        cols: 100,
        env: { ...server.env, TERM: 'xterm', ...env }
      })
      let output = ''
      terminal.onData((data) => (output += data))
      const exitCode = await new Promise<number>((resolve) => terminal.onExit(({ exitCode }) => resolve(exitCode)))
      return { exitCode, output }
    }
    const call = ['invoke', 'echo', '--arg', 'text=a\x1b]52;c;eA==\x07\x1b[2Jb']
    const [events, plain, invoked] = await Promise.all([
      inTerminal(['events', '--session', 'shown']),
      inTerminal(['events', '--session', 'shown'], { NO_COLOR: '1' }),
      inTerminal(call)
    ])
    expect([events.exitCode, plain.exitCode, invoked.exitCode]).toEqual([0, 0, 0])
    expect(events.output).toContain('\x1b[')
    expect(plain.output).not.toContain('\x1b')
    expect(events.output + invoked.output).not.toContain('\x1b]')
    expect(invoked.output).toBe('a\\x1b]52;c;eA==\\x07\\x1b[2Jb\r\n')
  })
})
