import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { verifyExport } from '../../server/event-log/verify-export.ts'
import { bareTool } from '../helpers/bare-tool.ts'
import { CommandServer, toolwright } from '../helpers/command-line.ts'
import { temporaryDirectory } from '../helpers/temporary-directory.ts'
import { until } from '../helpers/until.ts'

let server: CommandServer

beforeAll(async () => {
  server = await CommandServer.start({ 'http.bodyLimitBytes': '20000' })
})

afterAll(() => server.end())

const lines = (text: string): string[] => text.split('\n').slice(0, -1)
const objects = (text: string): any[] => lines(text).map((line) => JSON.parse(line))

/** The code at the beginning of the one line on standard error, and the exit code. */
const refusal = ({ exitCode, stdout, stderr }: Awaited<ReturnType<typeof toolwright>>) => {
  expect(stdout).toBe('')
  expect(lines(stderr)).toHaveLength(1)
  return [exitCode, /^toolwright: ([A-Z_]+): /.exec(stderr)?.[1]]
}

describe('finding the server', () => {
  it('takes the token of the option, the file of the environment, the variable, the home, in this order', async () => {
    const directory = temporaryDirectory()
    const observer = join(directory, 'observer')
    writeFileSync(observer, ` ${await server.tokenFor('observer')}\n`)
    const operator = join(directory, 'operator')
    writeFileSync(operator, await server.tokenFor('operator'))
    const roleOf = async (words: string[], env: Record<string, string>) => {
      const { exitCode } = await server.toolwright(['invoke', 'echo', ...words], { env })
      if (exitCode === 0) return 'agent or admin'
      return (await server.toolwright(['approvals', 'deny', 'none', ...words], { env })).exitCode === 65
        ? 'operator'
        : 'observer'
    }
    const agent = await server.tokenFor('agent')
    expect([
      await roleOf(['--token-file', observer], { TOOLWRIGHT_TOKEN_FILE: operator, TOOLWRIGHT_TOKEN: agent }),
      await roleOf([], { TOOLWRIGHT_TOKEN_FILE: operator, TOOLWRIGHT_TOKEN: agent }),
      await roleOf([], { TOOLWRIGHT_TOKEN: agent }),
      await roleOf([], {})
    ]).toEqual(['observer', 'operator', 'agent or admin', 'agent or admin'])
  })

  it('takes the URL of the option, of the environment, else host and port as configured', async () => {
    const config = join(temporaryDirectory(), 'c.json')
    writeFileSync(config, JSON.stringify({ port: server.port, home: server.home }))
    const PATH = process.env['PATH']
    expect(await toolwright(['sessions', '--config', config], { env: { PATH } })).toMatchObject({ exitCode: 0 })
    const env = { TOOLWRIGHT_HOME: server.home, TOOLWRIGHT_PORT: String(server.port) }
    expect((await toolwright(['sessions'], { env })).exitCode).toBe(0)
    expect(
      (await toolwright(['sessions'], { env: { ...env, TOOLWRIGHT_URL: 'http://127.0.0.1:1024' } })).exitCode
    ).toBe(69)
    expect((await server.toolwright(['sessions', '--url', `${server.url}/`])).exitCode).toBe(0)
    expect((await toolwright(['sessions'], { env: { ...env, TOOLWRIGHT_PORT: '0' } })).exitCode).toBe(78)
    for (const url of [
      'localhost:7410',
      'ftp://x',
      'http://u:secret@h',
      'http://h/?token=secret',
      'http://h/#x',
      'x'
    ]) {
      const { exitCode, stderr } = await server.toolwright(['sessions', '--url', url])
      expect([url, exitCode]).toEqual([url, 64])
      expect(stderr).not.toContain('secret')
    }
  })

  it('a token is never an argument, and a file without one is said', async () => {
    for (const words of [['--token', 'tw_canary'], ['--token=tw_canary'], ['--set', 'auth.token=tw_canary']]) {
      for (const command of ['sessions', 'serve', 'config']) {
        const { exitCode, stdout, stderr } = await server.toolwright([command, ...words])
        expect([command, words, exitCode]).toEqual([command, words, 64])
        expect(stdout + stderr).not.toContain('canary')
      }
    }
    const file = join(temporaryDirectory(), 'token')
    for (const content of ['', 'two words', 'ümlaut', 'a\nb', '\0']) {
      writeFileSync(file, content)
      const { exitCode, stderr } = await server.toolwright(['sessions', '--token-file', file])
      expect([content, exitCode]).toEqual([content, 77])
      expect(stderr).not.toContain('words')
    }
    const env = { ...server.env, TOOLWRIGHT_HOME: temporaryDirectory() }
    const { exitCode, stderr } = await toolwright(['sessions'], { env })
    expect([exitCode, stderr]).toEqual([77, expect.stringContaining('--token-file')])
  })

  it('each refusal is one line with its code and the id of the request, and an exit code of its kind', async () => {
    const wrong = { env: { TOOLWRIGHT_TOKEN: 'tw_0000000000000000_x' } }
    const observer = { env: { TOOLWRIGHT_TOKEN: await server.tokenFor('observer') } }
    const unknown = await server.toolwright(['sessions', 'nope'])
    expect(unknown.stderr).toMatch(/^toolwright: UNKNOWN_SESSION: .* \(request [\w-]+\)\n$/)
    expect(refusal(unknown)).toEqual([65, 'UNKNOWN_SESSION'])
    expect(refusal(await server.toolwright(['sessions'], wrong))).toEqual([77, 'UNAUTHENTICATED'])
    expect(refusal(await server.toolwright(['events', '--follow'], wrong))).toEqual([77, 'UNAUTHENTICATED'])
    expect(refusal(await server.toolwright(['invoke', 'echo'], wrong))).toEqual([77, 'UNAUTHENTICATED'])
    expect(refusal(await server.toolwright(['token', 'list'], observer))).toEqual([77, 'FORBIDDEN'])
    expect(refusal(await server.toolwright(['tools', '--scope', 'nope']))).toEqual([65, 'UNKNOWN_SCOPE'])
    expect(refusal(await server.toolwright(['tools', '../tokens']))).toEqual([65, 'NOT_FOUND'])
    expect(refusal(await server.toolwright(['schemas', '--format', 'x']))).toEqual([65, 'BAD_REQUEST'])
    expect(refusal(await server.toolwright(['events', '--follow', '--after', '999999']))).toEqual([65, 'LOG_RESET'])
    const large = ['invoke', 'echo', '--arg', `text=${'x'.repeat(60_000)}`]
    expect(refusal(await server.toolwright(large))).toEqual([65, 'BODY_TOO_LARGE'])
  })

  it('what is not there, or is no server of ours, is told from a refusal', async () => {
    const down = await server.toolwright(['invoke', 'echo', '--url', 'http://127.0.0.1:1024'])
    expect(down).toMatchObject({ exitCode: 69, stderr: expect.stringMatching(/cannot reach http:.*: ECONNREFUSED\n$/) })
    const seen: (string | undefined)[] = []
    const stranger = createServer(({ url, headers }, response) => {
      seen.push(headers.authorization)
      if (url?.startsWith('/sessions/moved')) response.writeHead(302, { location: `${other}/sessions` }).end()
      else if (url?.startsWith('/sessions/cut')) response.writeHead(200, { 'content-length': 9 }).end('{')
      else response.writeHead(url?.startsWith('/sessions/gate') ? 502 : 200).end('<html>\x1b]0;x\x07')
    }).listen(0, '127.0.0.1')
    await once(stranger, 'listening')
    onTestFinished(() => void stranger.close())
    const other = `http://127.0.0.1:${(stranger.address() as AddressInfo).port}`
    for (const [session, code] of Object.entries({ plain: 70, moved: 70, gate: 69, cut: 69 })) {
      const { exitCode, stderr } = await server.toolwright(['sessions', session, '--url', other])
      expect([session, exitCode]).toEqual([session, code])
      expect(stderr).not.toContain('\x1b')
    }
    // A redirection is not followed: nobody else is shown the token.
    expect(seen).toHaveLength(4)
  })
})

describe('what there is to call', () => {
  it('tools: names in columns, objects for programs, one in whole; hostile texts do nothing', async () => {
    const evil = { ...bareTool('evil'), description: 'A\x1b]0;title\x07B\u202eC\nsecond line' }
    onTestFinished(server.app.app.tools.register(evil))
    const { stdout } = await server.toolwright(['tools'])
    expect(lines(stdout)[0]).toMatch(/^NAME +SCOPE +ORIGIN +DESCRIPTION$/)
    expect(stdout).toMatch(/^echo +global +plugin +Returns its text\.$/m)
    expect(stdout).toMatch(/^evil .*A\\x1b\]0;title\\x07B\\u202eC$/m)
    const all = objects((await server.toolwright(['tools', '--json'])).stdout)
    expect(all.find(({ name }) => name === 'evil')).toMatchObject({ description: evil.description })
    const one = await server.toolwright(['tools', 'evil', '--json'], { columns: 40 })
    expect(JSON.parse(one.stdout)).toMatchObject({ description: evil.description })
    // eslint-disable-next-line no-control-regex
    expect(one.stdout).not.toMatch(/[\0-\x09\x0b-\x1f\x7f-\x9f\u202e]/)
    expect(JSON.parse((await server.toolwright(['tools', 'echo'])).stdout)).toMatchObject({ name: 'echo' })
  })

  it('colours are for terminals that want them, and lines are cut to their width', async () => {
    const on = await server.toolwright(['tools'], { columns: 60 })
    expect(on.stdout).toContain('\x1b[')
    for (const env of [{ NO_COLOR: '1' }, { TERM: 'dumb' }]) {
      const { stdout } = await server.toolwright(['tools'], { columns: 60, env })
      expect(stdout).not.toContain('\x1b')
      expect(Math.max(...lines(stdout).map((line) => line.length))).toBeLessThanOrEqual(60)
      expect(stdout).toContain('…')
    }
    expect((await server.toolwright(['tools'])).stdout).not.toContain('\x1b')
  })

  it('schemas in the format of a provider', async () => {
    const native = JSON.parse((await server.toolwright(['schemas'])).stdout)
    expect(native.map(({ name }: { name: string }) => name)).toContain('echo')
    const { stdout } = await server.toolwright(['schemas', '--format', 'openai', '--json'])
    expect(objects(stdout)[0].schemas[0]).toMatchObject({ type: 'function' })
  })

  it('import registers the operations of a document', async () => {
    const file = join(temporaryDirectory(), 'api.yaml')
    writeFileSync(
      file,
      `openapi: 3.1.0\ninfo: { title: t, version: '1' }\nservers: [{ url: 'https://api.example.com' }]\npaths:\n  /pets:\n    get: { operationId: listPets, summary: All pets, responses: { '200': { description: ok } } }\n`
    )
    const { exitCode, stdout, stderr } = await server.toolwright(['import', file, '--prefix', 'p_', '--dry-run'])
    expect([exitCode, stderr]).toEqual([0, expect.not.stringContaining('toolwright:')])
    expect(stdout).toMatch(/^p_listPets +\S/m)
    expect((await server.toolwright(['import', `${file}.none`])).exitCode).toBe(64)
    writeFileSync(file, 'no: openapi')
    expect((await server.toolwright(['import', file])).exitCode).toBe(65)
  })
})

describe('invoke', () => {
  it('prints the text of the answer, or with --json the answer', async () => {
    expect(await server.toolwright(['invoke', 'echo', '{"text":"häl\\u0000lo"}'])).toEqual({
      exitCode: 0,
      stdout: 'häl\0lo\n',
      stderr: ''
    })
    const { stdout } = await server.toolwright(['invoke', 'echo', '{"text":"a\\n"}', '--json'])
    expect(objects(stdout)).toMatchObject([{ name: 'echo', isError: false, value: 'a\n' }])
    expect((await server.toolwright(['invoke', 'echo', '{"text":"a\\n"}'])).stdout).toBe('a\n')
  })

  it('a failure of the tool is exit code 1, with its code and what is known of its effect', async () => {
    const { exitCode, stdout, stderr } = await server.toolwright(['invoke', 'need'])
    expect([exitCode, stdout]).toEqual([1, ''])
    expect(stderr).toBe('toolwright: INVALID_ARGS: invalid arguments: "path" is required (nothing was done)\n')
    const boom = await server.toolwright(['invoke', 'boom'])
    expect(boom).toMatchObject({
      exitCode: 1,
      stderr: 'toolwright: the tool failed: exploded (its effect is unknown)\n'
    })
  })

  it('takes arguments one by one, and rounds nothing on the way', async () => {
    const show = async (...words: string[]) => {
      const { exitCode, stdout, stderr } = await server.toolwright(['invoke', 'show', ...words])
      return exitCode === 0 ? JSON.parse(stdout) : stderr
    }
    onTestFinished(server.app.app.tools.register(bareTool('show', { execute: (args) => JSON.stringify(args) })))
    const pairs = ['--arg', 'a=1', '--arg', 'b:=[1,"x"]', '--arg', 'c==d=', '--arg', '__proto__=p', '--arg', 'e=']
    expect(await show(...pairs)).toEqual(JSON.parse('{"a":"1","b":[1,"x"],"c":"=d=","__proto__":"p","e":""}'))
    expect(await show()).toEqual({})
    expect(await show('{"n":12345678901234567890}')).toContain('INVALID_ARGS')
    expect(await show('{"n":1e999}')).toContain('toolwright: ')
    for (const words of [
      ['{'],
      ['{}', '{}'],
      ['{}', '--arg', 'a=1'],
      ['--arg', 'a'],
      ['--arg', 'a:=x'],
      ['--arg', 'a=1', '--arg', 'a=2']
    ]) {
      expect([words, (await server.toolwright(['invoke', 'show', ...words])).exitCode]).toEqual([words, 64])
    }
  })

  it('a call id makes it one call, also with others', async () => {
    const call = ['invoke', 'count', '--session', 'ids', '--call-id', 'c/1 ü']
    const first = await server.toolwright(call)
    const again = await server.toolwright(call)
    expect([again.exitCode, again.stdout]).toEqual([0, first.stdout])
    expect(again.stderr).toContain('earlier call')
    expect(refusal(await server.toolwright([...call, '--arg', 'id=x']))).toEqual([65, 'CALL_CONFLICT'])
  })

  it('--dry-run says what would be, --async where to ask', async () => {
    const dry = (...words: string[]) => server.toolwright(['invoke', 'need', '--dry-run', ...words])
    expect(await dry('--arg', 'path=x')).toEqual({ exitCode: 0, stdout: 'allow\n', stderr: '' })
    expect(await dry()).toMatchObject({ exitCode: 1, stdout: 'invalid arguments\n"path" is required\n' })
    expect(objects((await dry('--json')).stdout)).toMatchObject([{ violations: ['"path" is required'] }])
    const { exitCode, stdout } = await server.toolwright([
      'invoke',
      'echo',
      '--async',
      '--call-id',
      'later',
      '--session',
      'as'
    ])
    expect([exitCode, stdout]).toEqual([0, expect.stringMatching(/^\w+: \/calls\/as\/later\n$/)])
  })

  it('shows what the tool prints while it runs', async () => {
    let release = (): void => undefined
    const released = new Promise<void>((resolve) => (release = resolve))
    const chatty = {
      ...bareTool('chatty'),
      execute: async (_args: unknown, exec: { progress: (chunk: string) => void }) => {
        exec.progress('half\x1b[2J\n')
        await released
        return 'whole'
      }
    }
    onTestFinished(server.app.app.tools.register(chatty))
    for (const [columns, shown] of [
      [undefined, 'half\x1b[2J\n'],
      [80, 'half\\x1b[2J\n']
    ] as const) {
      let seen = ''
      const ran = server.toolwright(['invoke', 'chatty'], {
        ...(columns !== undefined && { columns }),
        env: { NO_COLOR: '1' },
        onStderr: (chunk) => (seen += chunk)
      })
      await until(() => seen !== '')
      release()
      expect(await ran).toMatchObject({ exitCode: 0, stderr: shown })
    }
    expect((await server.toolwright(['invoke', 'chatty', '--no-progress'])).stderr).toBe('')
  })

  it('a terminal is given no control characters of a tool, a pipe every byte', async () => {
    const hostile = 'a\x1b]52;c;eA==\x07\x9b2J\u202eb\tc\r\nd\u2066\x7f\u{e0041}\u3164❤\ufe0f'
    const call = ['invoke', 'echo', JSON.stringify({ text: hostile })]
    expect((await server.toolwright(call)).stdout).toBe(`${hostile}\n`)
    expect((await server.toolwright(call, { columns: 80 })).stdout).toBe(
      'a\\x1b]52;c;eA==\\x07\\x9b2J\\u202eb\tc\nd\\u2066\\x7f\\udb40\\udc41\\u3164❤\ufe0f\n'
    )
    const { stdout } = await server.toolwright([...call, '--json'], { columns: 80 })
    expect(JSON.parse(stdout).value).toBe(hostile)
    expect(stdout).not.toMatch(/[\u202e\u2066\x7f\x9b\u{e0041}]/u)
  })
})

describe('sessions, events and export', () => {
  beforeAll(async () => {
    for (const text of ['one', 'two'])
      await server.toolwright(['invoke', 'echo', '--session', 'story', '--arg', `text=${text}`])
  })

  it('lists sessions, and one', async () => {
    const { stdout } = await server.toolwright(['sessions'])
    expect(stdout).toMatch(/^story +global +\S+Z +1 +-$/m)
    expect(objects((await server.toolwright(['sessions', 'story', '--json'])).stdout)).toMatchObject([
      { id: 'story', turn: 1 }
    ])
  })

  it('prints the events of a session, of a type, after a seq', async () => {
    const all = objects((await server.toolwright(['events', '--session', 'story', '--json'])).stdout)
    expect(all.map(({ seq }) => seq)).toEqual([0, 1, 2, 3, 4])
    const plain = await server.toolwright(['events', '--session', 'story', '--type', 'tool/call', '--after', '1'])
    expect(lines(plain.stdout)).toEqual([expect.stringMatching(/^\S+Z story#3 tool\/call \{.*"name":"echo".*\}$/)])
    for (const words of [
      [],
      ['--session', 's', '--after', 'x'],
      ['--after=-2', '--session', 's'],
      ['--session', 's', '--scope', 'x']
    ]) {
      expect([words, (await server.toolwright(['events', ...words])).exitCode]).toEqual([words, 64])
    }
  })

  it('exports a session into a new file, or through a pipe', async () => {
    const file = join(temporaryDirectory(), 's.zstd')
    expect(await server.toolwright(['export', 'story', file])).toEqual({ exitCode: 0, stdout: '', stderr: '' })
    expect(verifyExport(readFileSync(file))).toMatchObject({ session: 'story', events: 5, isTorn: false })
    expect(statSync(file).mode & 0o777).toBe(0o600)
    writeFileSync(file, 'mine')
    expect((await server.toolwright(['export', 'story', file])).exitCode).toBe(78)
    expect(readFileSync(file, 'utf8')).toBe('mine')
    expect(refusal(await server.toolwright(['export', 'nope', `${file}.2`]))).toEqual([65, 'UNKNOWN_SESSION'])
    expect(existsSync(`${file}.2`)).toBe(false)
    expect((await server.toolwright(['export', 'story'], { columns: 80 })).exitCode).toBe(64)
  })
})

describe('approvals', () => {
  it('shows what would run, and decides it once', async () => {
    const undo = server.app.app.tools.addHook('preExecute', async (exec, next) =>
      exec.name === 'need' ? { kind: 'ask', reason: 'sure?\x1b[2J' } : next()
    )
    onTestFinished(undo)
    const calls = ['a', 'b'].map((path) =>
      server.toolwright(['invoke', 'need', '--session', path, '--arg', `path=${path}\x1b[1A`])
    )
    const waiting = async () => objects((await server.toolwright(['approvals', '--json'])).stdout)
    await until(async () => (await waiting()).length === 2)
    const [first, second] = (await waiting()).sort((a, b) => a.session.localeCompare(b.session))
    const shown = await server.toolwright(['approvals'])
    expect(shown.stdout).toContain('reason: sure?\\x1b[2J')
    expect(shown.stdout).toContain(`hash ${first.hash}`)
    expect(shown.stdout).not.toContain('\x1b')

    expect(refusal(await server.toolwright(['approvals', 'allow', first.id, '--hash', 'x']))).toEqual([
      65,
      'APPROVAL_STALE'
    ])
    const allowed = await server.toolwright(['approvals', 'allow', second.id, '--hash', second.hash, '--reason', 'ok'])
    expect(allowed).toMatchObject({ exitCode: 0, stdout: 'need of session b: allowed-once\n' })
    expect(refusal(await server.toolwright(['approvals', 'deny', second.id]))).toEqual([65, 'ALREADY_DECIDED'])
    expect((await calls[1])?.exitCode).toBe(0)
    if ((await waiting()).length > 0) await server.toolwright(['approvals', 'deny', first.id])
    expect((await calls[0])?.exitCode).toBe(1)
    for (const words of [
      ['allow'],
      ['x', 'y'],
      ['allow', 'x', '[]'],
      ['answer', 'x'],
      ['answer', 'x', '['],
      ['deny', 'x', '--arguments', '{}']
    ]) {
      expect([words, (await server.toolwright(['approvals', ...words])).exitCode]).toEqual([words, 64])
    }
  })
})

describe('token', () => {
  it('makes, lists, rotates and revokes', async () => {
    const made = await server.toolwright([
      'token',
      'create',
      '--role',
      'observer',
      '--label',
      'a\x1b[2J',
      '--ttl',
      '30d'
    ])
    expect(made.exitCode).toBe(0)
    expect(lines(made.stdout)).toEqual([expect.stringMatching(/^tw_[0-9a-f]{16}_/)])
    const id = made.stdout.split('_')[1] as string
    const use = async (secret: string) =>
      (await server.toolwright(['sessions'], { env: { TOOLWRIGHT_TOKEN: secret.trim() } })).exitCode
    expect(await use(made.stdout)).toBe(0)
    const { stdout } = await server.toolwright(['token', 'list'])
    expect(stdout).toMatch(new RegExp(`^${id} +observer +global +\\S+Z +\\S+Z +\\S+Z +a\\\\x1b\\[2J$`, 'm'))
    expect(stdout).not.toContain(made.stdout.trim())

    const file = join(temporaryDirectory(), 'new-token')
    const rotated = await server.toolwright(['token', 'rotate', id, '--overlap', '1h', '--output', file])
    expect([rotated.exitCode, rotated.stdout, statSync(file).mode & 0o777]).toEqual([0, '', 0o600])
    expect([await use(made.stdout), await use(readFileSync(file, 'utf8'))]).toEqual([0, 0])
    expect((await server.toolwright(['token', 'rotate', id, '--output', file])).exitCode).not.toBe(0)
    expect(await use(readFileSync(file, 'utf8'))).toBe(0)
    const show = objects((await server.toolwright(['token', 'show', id, '--json'])).stdout)
    expect(show).toMatchObject([{ id, previousUntil: expect.any(Number), lastUsedAt: expect.any(Number) }])

    expect(await server.toolwright(['token', 'revoke', id])).toMatchObject({ exitCode: 0 })
    expect([await use(made.stdout), await use(readFileSync(file, 'utf8'))]).toEqual([77, 77])
    expect(refusal(await server.toolwright(['token', 'revoke', id]))).toEqual([65, 'NOT_FOUND'])
    const refused = `${file}.refused`
    expect((await server.toolwright(['token', 'create', '--role', 'root', '--output', refused])).exitCode).toBe(65)
    expect(existsSync(refused)).toBe(false)
  })

  it('that of the admin goes on working when it is rotated', async () => {
    const old = server.admin
    const { exitCode, stdout } = await server.toolwright(['token', 'rotate', old.split('_')[1] as string])
    expect([exitCode, server.admin]).toEqual([0, stdout.trim()])
    expect((await server.toolwright(['token', 'list'])).exitCode).toBe(0)
    expect((await server.toolwright(['token', 'list'], { env: { TOOLWRIGHT_TOKEN: old } })).exitCode).toBe(77)
  })

  it('takes nothing else', async () => {
    for (const words of [
      [],
      ['x'],
      ['list', 'x'],
      ['rotate'],
      ['create'],
      ['create', '--role', 'admin', '--ttl', '5'],
      ['rotate', 'x', '--overlap', '-1h']
    ]) {
      expect([words, (await server.toolwright(['token', ...words])).exitCode]).toEqual([words, 64])
    }
  })
})
