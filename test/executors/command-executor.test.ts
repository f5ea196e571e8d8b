import { chmodSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { ManagedTrees } from '../../server/backends/subprocess/managed-trees.ts'
import { ProcessLostError, type Subprocesses } from '../../server/backends/subprocess/subprocess.ts'
import { CommandExecutor, commandLine } from '../../server/executors/command-executor.ts'
import { wireTool, type WireToolFields } from '../../server/executors/wire-tool.ts'
import type { JsonValue } from '../../server/json/lossless.ts'
import type { ToolResult } from '../../server/pipeline/result.ts'
import { WireSchemas } from '../../server/schema/ajv-validator.ts'
import { timeout } from '../../plugins/policies/timeout.ts'
import { codeOf, messageIn, PipelineFixture } from '../helpers/pipeline-fixture.ts'
import { processesWith, uniqueSleep } from '../helpers/processes.ts'
import { temporaryDirectory } from '../helpers/temporary-directory.ts'
import { until } from '../helpers/until.ts'

let trees: ManagedTrees
let schemas: WireSchemas
beforeAll(() => {
  trees = new ManagedTrees({ dataDirectory: import.meta.dirname })
  schemas = new WireSchemas()
})
afterAll(async () => {
  await schemas.close()
  await trees.dispose()
})

const limits = { maxOutputBytes: 100_000, graceMs: 200, liveBytesPerSecond: 100_000 }

interface Started {
  fixture: PipelineFixture
  cwd: string
  stderr: string[]
}

async function commandTool(
  argv: [string, ...string[]],
  more: Partial<WireToolFields> = {},
  cwd = temporaryDirectory(),
  subprocesses: Subprocesses = trees
): Promise<Started> {
  const fixture = new PipelineFixture({ traced: false })
  await fixture.tools.mount(timeout)
  const stderr: string[] = []
  const executor = new CommandExecutor({
    argv,
    subprocesses,
    limits,
    cwdOf: async () => cwd,
    onStderr: (text) => stderr.push(text)
  })
  const fields = { name: 'cmd', description: 'Runs.', parameters: { type: 'object' }, ...more }
  fixture.register(await wireTool(fields, executor, schemas))
  return { fixture, cwd, stderr }
}

const bash = (script: string, more?: Partial<WireToolFields>): Promise<Started> =>
  commandTool(['bash', '-c', script], more)
const valueOf = (result: ToolResult): JsonValue => {
  if (result.isError) throw new Error(result.error.message)
  return result.value
}
const said = (result: ToolResult): unknown[] => [codeOf(result), messageIn(result)]

describe('the command executor (api.md §3)', () => {
  it('takes the arguments as JSON on standard input and one JSON value from standard output, both as they are', async () => {
    const { fixture } = await commandTool(['cat'])
    const args = JSON.parse('{"__proto__":{"a":[1,"ü\\u0000\\n"]},"b":1e21}') as JsonValue
    expect(JSON.stringify(valueOf(await fixture.call('cmd', args)))).toBe(JSON.stringify(args))
    const large = { text: 'x'.repeat(90_000) }
    expect(valueOf(await fixture.call('cmd', large))).toEqual(large)
  })

  it('no shell has a say: what is in the arguments and on the command line stays text', async () => {
    const script = 'process.stdout.write(JSON.stringify(process.argv.slice(1)))'
    const argv: [string, ...string[]] = [process.execPath, '-e', script, '--', '$(id)', '`id`; $HOME', '*', '']
    const { fixture } = await commandTool(argv)
    expect(valueOf(await fixture.call('cmd', { x: '$(touch pwned)' }))).toEqual(['$(id)', '`id`; $HOME', '*', ''])
  })

  it('runs where its session works, without the secrets of the server, told which call it is', async () => {
    process.env['A_TEST_SECRET_TOKEN'] = 'canary'
    const { fixture, cwd } = await bash(
      'cat > /dev/null; printf \'["%s","%s","%s","%s","%s","%s"]\' "$PWD" "$A_TEST_SECRET_TOKEN" "$TOOLWRIGHT_CALL_ID" "$TOOLWRIGHT_TOOL" "$TOOLWRIGHT_SCOPE" "$TOOLWRIGHT_SESSION_ID"'
    )
    delete process.env['A_TEST_SECRET_TOKEN']
    const agent = fixture.agent('a')
    const value = valueOf(await fixture.call('cmd', {}, { callId: 'c', agent }))
    expect(value).toEqual([cwd, '', 'c', 'cmd', 'a', 'session-a'])
  })

  it('its streams can be opened by their names, as scripts do', async () => {
    const { fixture, stderr } = await bash(
      'sleep 0.1; args=$(cat /dev/stdin); echo told > /dev/stderr; echo "$args" > /dev/stdout'
    )
    expect(valueOf(await fixture.call('cmd', { text: 'here' }))).toEqual({ text: 'here' })
    expect(stderr.join('')).toBe('told\n')
  })

  it('need not read its input', async () => {
    const { fixture } = await bash('exec 0<&-; echo 1')
    expect(valueOf(await fixture.call('cmd', { text: 'x'.repeat(1_000_000) }))).toBe(1)
  })

  it('what is not one JSON value is INVALID_TOOL_OUTPUT [core-2.8.unsafe-output]', async () => {
    const outputs: [string, string][] = [
      [':', 'nothing'],
      ['echo', 'nothing'],
      ['echo hello', 'one JSON value'],
      ['echo 1; echo 2', 'one JSON value'],
      ['echo \'{"a":\'', 'one JSON value'],
      ["printf '\\xff\\xfe'", 'UTF-8'],
      ['echo \'{"n":[9007199254740993]}\'', '$.n[0]'],
      ['echo -0', '-0'],
      ['echo 1e999', 'Infinity']
    ]
    for (const [script, word] of outputs) {
      const { fixture } = await bash(script)
      const { call, result } = await fixture.staged(fixture.input('cmd'))
      expect([script, ...said(result), call.effect]).toEqual([
        script,
        'INVALID_TOOL_OUTPUT',
        expect.stringContaining(word),
        'completed'
      ])
    }
  })

  it('depth is no obstacle', async () => {
    const { fixture } = await bash('printf "[%.0s" {1..5000}; printf "]%.0s" {1..5000}')
    expect((await fixture.call('cmd')).isError).toBe(false)
  })

  it('an exit that is not 0 fails the call with the end of standard error, whatever was written', async () => {
    const { fixture, stderr } = await bash('echo 1; echo "out of paper" >&2; exit 3')
    const { call, result } = await fixture.staged(fixture.input('cmd'))
    expect(said(result)).toEqual(['COMMAND_FAILED', 'the command exited with code 3: out of paper'])
    expect([call.effect, stderr]).toEqual(['unknown', ['out of paper\n']])
    const killed = await bash('echo 1; kill -KILL $$')
    expect(said(await killed.fixture.call('cmd'))).toEqual(['COMMAND_FAILED', 'the command was ended by SIGKILL'])
    const long = await bash('yes 0123456789 | head -c 1000000 >&2; echo end >&2; exit 1')
    const message = messageIn(await long.fixture.call('cmd'))
    expect(message).toMatch(/^the command exited with code 1: ….*0123456789\n0end$/s)
    expect(message?.length).toBeLessThan(2_100)
  })

  it('standard error is seen live and logged, also of a call that succeeds, and is no output', async () => {
    const chunks: string[] = []
    const { fixture, stderr } = await bash('echo working >&2; echo 1')
    expect(valueOf(await fixture.call('cmd', {}, { onProgress: (chunk) => chunks.push(chunk) }))).toBe(1)
    expect([chunks.join(''), stderr]).toEqual(['working\n', ['working\n']])
  })

  it('output beyond the limit ends the command', async () => {
    const mark = uniqueSleep()
    const { fixture } = await bash(`sleep ${mark} & yes`)
    const { call, result } = await fixture.staged(fixture.input('cmd'))
    expect([codeOf(result), call.effect]).toEqual(['COMMAND_OUTPUT_TOO_LARGE', 'unknown'])
    await until(() => processesWith(mark).length === 0)
  })

  it('what could not be started had no effect', async () => {
    const directory = temporaryDirectory()
    const file = (name: string, text: string, mode: number): string => {
      const path = join(directory, name)
      writeFileSync(path, text)
      chmodSync(path, mode)
      return path
    }
    const commands: [string, ...string[]][] = [
      ['no-such-program-anywhere'],
      [join(directory, 'missing')],
      [file('plain', 'echo 1', 0o644)],
      [file('lost', '#!/no/such/interpreter\n', 0o755)],
      [directory]
    ]
    for (const argv of commands) {
      const { fixture } = await commandTool(argv)
      const { call, result } = await fixture.staged(fixture.input('cmd'))
      expect([argv[0], codeOf(result), call.effect]).toEqual([argv[0], 'COMMAND_NOT_STARTED', 'none'])
    }
    const { fixture } = await commandTool(['true'], {}, join(directory, 'nowhere'))
    const { call, result } = await fixture.staged(fixture.input('cmd'))
    expect([codeOf(result), call.effect]).toEqual(['COMMAND_NOT_STARTED', 'none'])
  })

  it('of a command that was lost with the process that starts others, nobody knows whether it began', async () => {
    const lost = new ProcessLostError(new Error('it ended'))
    const subprocesses = {
      resolveExecutable: () => Promise.resolve('/bin/true'),
      spawn: () => ({ started: Promise.resolve(-1), done: Promise.reject(lost) })
    } as unknown as Subprocesses
    const { fixture } = await commandTool(['true'], {}, '/', subprocesses)
    const { call, result } = await fixture.staged(fixture.input('cmd'))
    expect([...said(result), call.effect]).toEqual(['COMMAND_FAILED', lost.message, 'unknown'])
  })

  it('the abort of a call ends all that it started', async () => {
    const [inner, escaped] = [uniqueSleep(), uniqueSleep()]
    const { fixture } = await bash(`trap '' TERM; setsid sleep ${escaped} & sleep ${inner} & wait; sleep ${inner}`)
    const { controller, result } = fixture.start('cmd')
    await until(() => processesWith(inner).length > 0 && processesWith(escaped).length > 0)
    controller.abort()
    expect(codeOf(await result)).toBe('ABORTED')
    expect([processesWith(inner), processesWith(escaped)]).toEqual([[], []])
  })

  it('the deadline does as well, and is told as that', async () => {
    const mark = uniqueSleep()
    const { fixture } = await bash(`sleep ${mark} & echo 1; wait`, { timeoutMs: 300 })
    expect(codeOf(await fixture.call('cmd'))).toBe('TOOL_TIMEOUT')
    expect(processesWith(mark)).toEqual([])
  })

  it('all of a large output arrives, though the command is long gone', async () => {
    const { fixture } = await bash('printf \'"\'; head -c 99000 /dev/zero | tr "\\0" x; printf \'"\'')
    expect(valueOf(await fixture.call('cmd'))).toHaveLength(99_000)
  })

  it('F1 what a command leaves behind keeps no answer, and goes', async () => {
    const mark = uniqueSleep()
    const { fixture } = await bash(`sleep ${mark} & echo '"started"'`)
    expect(valueOf(await fixture.call('cmd'))).toBe('started')
    await until(() => processesWith(mark).length === 0)
  })

  it('an abort before the start starts nothing', async () => {
    const { fixture, cwd } = await bash('touch ran; echo 1')
    const controller = new AbortController()
    fixture.hook('execute', (_exec, next) => {
      controller.abort()
      return next()
    })
    const result = await fixture.call('cmd', {}, { signal: controller.signal })
    expect(codeOf(result)).toBe('ABORTED_BEFORE_DISPATCH')
    expect(() => readFileSync(join(cwd, 'ran'))).toThrow('ENOENT')
  })

  it('many calls side by side do not mix', async () => {
    const { fixture } = await commandTool(['cat'], { concurrency: 'parallel' })
    const results = await Promise.all(Array.from({ length: 20 }, (_, n) => fixture.call('cmd', { n })))
    expect(results.map(valueOf)).toEqual(results.map((_, n) => ({ n })))
  })
})

describe('a command line', () => {
  it('is a list of texts, with a program that can be found, and not too long', () => {
    expect(commandLine({ kind: 'command', argv: ['/bin/echo', ''] })).toEqual(['/bin/echo', ''])
    const bad: JsonValue[] = [
      ...[[], [''], ['./x'], ['a/b'], ['x\0'], ['/x\0y'], ['echo', 'a\0'], [5], ['echo', null], 'echo', {}, null],
      ['echo', 'x'.repeat(40_000)],
      ['echo', ...Array.from({ length: 300 }, () => 'x')]
    ]
    for (const argv of bad) {
      expect(() => commandLine({ kind: 'command', argv }), JSON.stringify(argv).slice(0, 40)).toThrow(
        expect.objectContaining({ code: 'INVALID_DEFINITION' })
      )
    }
    expect(() => commandLine({ kind: 'command' })).toThrow('argv')
  })

  it('is shown by its program alone', async () => {
    const { fixture } = await commandTool(['curl', '--header', 'Authorization: Bearer secret'])
    expect(fixture.registry.lookup('cmd')?.describeSource?.()).toEqual({
      origin: 'wire',
      executor: { kind: 'command', program: 'curl' }
    })
  })
})
