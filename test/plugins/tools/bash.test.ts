import { existsSync, mkdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, it, onTestFinished } from 'vitest'
import { bashTool } from '../../../plugins/tools/bash.ts'
import { parseCommand, renderCommand } from '../../../plugins/tools/command-text.ts'
import { BashShell } from '../../../server/backends/shell/bash-shell.ts'
import type { ShellLimits } from '../../../server/backends/shell/command-shell.ts'
import type { ShellRunResult } from '../../../server/backends/shell/shell.ts'
import { ManagedTrees } from '../../../server/backends/subprocess/managed-trees.ts'
import type { RunContext } from '../../../server/pipeline/execution.ts'
import { processesWith, uniqueSleep } from '../../helpers/processes.ts'
import { agentOf, runContext } from '../../helpers/run-context.ts'
import { temporaryDirectory } from '../../helpers/temporary-directory.ts'
import { until } from '../../helpers/until.ts'

type Value = ShellRunResult & { kind: string }

const trees = new ManagedTrees({ dataDirectory: import.meta.dirname })
afterAll(() => trees.dispose())

function open(limits: Partial<ShellLimits> = {}) {
  const cwd = temporaryDirectory()
  const shell = new BashShell(trees, { limits: { graceMs: 500, ...limits } })
  const tool = bashTool({ shell, workspaces: { cwdOf: () => cwd, home: '/home/of/toolwright' } })
  const call = async (args: Record<string, unknown>, exec: Partial<RunContext> = {}) => {
    const whole = { description: 'x', ...args } as never
    const value = (await tool.execute(whole, runContext({ agent: agentOf('A'), ...exec }))) as Value
    const [block] = tool.output.render(whole, value as never) as unknown as [{ text: string }]
    return {
      value,
      text: block.text,
      card: tool.presentResult!(whole, { content: [{ type: 'text', text: block.text }], isError: false })
    }
  }
  return { tool, cwd, call }
}

const lastLine = (text: string) => text.split('\n').at(-1)

describe('bash', () => {
  it('C01 plain success', async () => {
    const { value, text } = await open().call({ command: "printf 'a\nb\n'" })
    expect(value).toMatchObject({ kind: 'foreground', exitCode: 0, signal: null, timedOut: false, aborted: false })
    expect(value.stdout).toEqual({ text: 'a\nb\n', truncated: false })
    expect(value.stderr.text).toBe('')
    expect(text).toBe('a\nb\n[exit code: 0]')
  })

  it('C02 non-zero is not an error', async () => {
    const { value, text, card } = await open().call({ command: 'exit 3' })
    expect(value.exitCode).toBe(3)
    expect(text).toBe('(no output)\n[exit code: 3]')
    expect(card).toEqual({ card: 'terminal', exitCode: 3, output: '(no output)' })
  })

  it('C03 stderr section', async () => {
    const { call } = open()
    expect((await call({ command: 'printf out; printf err >&2' })).text).toBe('out\n[stderr]\nerr\n[exit code: 0]')
    expect((await call({ command: "printf 'out\n'; printf err >&2" })).text).toBe('out\n[stderr]\nerr\n[exit code: 0]')
    expect((await call({ command: 'printf err >&2' })).text).toBe('[stderr]\nerr\n[exit code: 0]')
  })

  it('C04 fresh shell each call', async () => {
    const { call, cwd } = open()
    await call({ command: 'cd /; export Q=1; f(){ :; }' })
    const { value } = await call({ command: 'pwd; echo [$Q]; type f' })
    expect(value.stdout.text).toBe(`${cwd}\n[]\n`)
    expect(value.stderr.text).toContain('not found')
    expect(value.exitCode).not.toBe(0)
  })

  it('C03 output may be opened by its name, as scripts do', async () => {
    const { call } = open()
    const command = 'echo a > /dev/stdout; sh -c "echo b > /dev/stderr"; echo c | tee /dev/stderr >> /proc/self/fd/1'
    const { value } = await call({ command })
    expect([value.stdout.text, value.stderr.text, value.exitCode]).toEqual(['a\nc\n', 'b\nc\n', 0])
  })

  it('C05 workdir rules', async () => {
    const { call, cwd } = open()
    mkdirSync(join(cwd, 'sub'))
    expect((await call({ command: 'pwd', workdir: 'sub' })).value.stdout.text).toBe(`${cwd}/sub\n`)
    expect((await call({ command: 'pwd', workdir: '/tmp' })).value.stdout.text).toBe('/tmp\n')
    expect((await call({ command: 'pwd' })).value.stdout.text).toBe(`${cwd}\n`)
    await expect(call({ command: 'touch canary', workdir: 'nowhere' })).rejects.toThrow(/could not start/)
    await expect(call({ command: 'touch canary', workdir: 'a\0b' })).rejects.toThrow(/could not start/)
    expect(existsSync(join(cwd, 'canary'))).toBe(false)
  })

  it.each([
    { command: ' \n' },
    { description: ' ' },
    { timeoutMs: 0 },
    { timeoutMs: -1 },
    { run_in_background: true },
    { sandbox_permissions: 'danger-full-access', justification: 'j' }
  ])('C06 C25 refuses %j before anything runs', async (args) => {
    const { call, cwd } = open()
    await expect(call({ command: 'touch canary', ...args })).rejects.toThrow()
    expect(existsSync(join(cwd, 'canary'))).toBe(false)
  })

  it('C06 a missing description is INVALID_ARGS, undeclared arguments have no effect', async () => {
    const { call } = open()
    await expect(call({ command: 'true', description: undefined })).rejects.toMatchObject({ code: 'INVALID_ARGS' })
    const { value } = await call({
      command: 'cat; echo "[$X]"',
      stdin: 'hello',
      env: { X: '1' },
      run_in_background: false
    })
    expect(value.stdout.text).toBe('[]\n')
  })

  it('C07 environment scrub', async () => {
    const before = { ...process.env }
    Object.assign(process.env, { FOO_TOKEN: 'x', MY_SECRET: 'y', TOOLWRIGHT_STALE: 'z', PLAIN: 'ok' })
    onTestFinished(() => {
      process.env = before
    })
    const { call } = open()
    const command =
      'echo "[$FOO_TOKEN][$MY_SECRET][$TOOLWRIGHT_STALE][$PLAIN]"; echo $TERM $PAGER $NO_COLOR; echo $TOOLWRIGHT_SESSION_ID $TOOLWRIGHT_SHELL $TOOLWRIGHT_HOME'
    const expected = (id: string) => `[][][][ok]\ndumb cat 1\n${id} 1 /home/of/toolwright\n`
    expect((await call({ command })).value.stdout.text).toBe(expected('A'))
    expect((await call({ command }, { agent: agentOf('B') })).value.stdout.text).toBe(expected('B'))
  })

  it('C08 timeout and markers', async () => {
    const started = performance.now()
    const { value, text } = await open().call({ command: 'echo hi; sleep 30', timeoutMs: 1000 })
    expect(performance.now() - started).toBeLessThan(5000)
    expect(value).toMatchObject({ timedOut: true, aborted: false, signal: 'SIGTERM', timeoutMs: 1000 })
    expect(text).toBe('hi\n[timed out after 1000ms]\n[killed by signal: SIGTERM]')
  })

  it('a timeout with a trapped SIGTERM and exit 0 prints no kill marker (backends.md §3.2)', async () => {
    const command = "trap 'exit 0' TERM; while :; do sleep .02; done"
    const { text } = await open().call({ command, timeoutMs: 500 })
    expect(text).toMatch(/\n\[timed out after 500ms\]\n\[exit code: 0\]$/)
  })

  it('C12 self-kill', async () => {
    const { value, text } = await open().call({ command: 'kill -TERM $$' })
    expect(value).toMatchObject({ exitCode: null, signal: 'SIGTERM', timedOut: false, aborted: false })
    expect(lastLine(text)).toBe('[killed by signal: SIGTERM]')
  })

  it('C13 caller abort', async () => {
    const sleep = uniqueSleep()
    const controller = new AbortController()
    const running = open().call({ command: `sleep ${sleep}; true` }, { signal: controller.signal })
    await until(() => processesWith(`sleep ${sleep}`).length > 0)
    controller.abort()
    expect((await running).value).toMatchObject({ aborted: true, timedOut: false, signal: 'SIGTERM' })
    expect(processesWith(sleep)).toEqual([])
  })

  it('C14 tail truncation with spill', async () => {
    const { value, text } = await open({ maxOutputBytes: 1000 }).call({ command: 'seq 1 5000' })
    const { stdout } = value
    expect(stdout.truncated).toBe(true)
    expect(Buffer.byteLength(stdout.text)).toBeLessThanOrEqual(1000)
    expect(stdout.text.endsWith('5000\n')).toBe(true)
    expect(readFileSync(stdout.spillPath!, 'utf8')).toBe(
      Array.from({ length: 5000 }, (_, at) => `${at + 1}\n`).join('')
    )
    expect(statSync(stdout.spillPath!).mode & 0o777).toBe(0o600)
    expect(text.split('\n').slice(-2)).toEqual([
      `[output truncated; full output: ${stdout.spillPath}]`,
      '[exit code: 0]'
    ])
  })

  it('says when the full output is not kept', async () => {
    const { text } = await open({ maxOutputBytes: 1000, maxSpillBytes: 2000 }).call({ command: 'seq 1 5000' })
    expect(text).toContain('\n[output truncated; full output: (unavailable)]\n[exit code: 0]')
  })
})

describe('from the field', () => {
  it('F1 a child in the background that holds the output does not hold the call', async () => {
    const sleep = uniqueSleep()
    const started = performance.now()
    const { value } = await open({ graceMs: 3000 }).call({ command: `sleep ${sleep} & echo hi` })
    expect(performance.now() - started).toBeLessThan(1000)
    expect(value).toMatchObject({ exitCode: 0, stdout: { text: 'hi\n' } })
  })

  it('F3 a setsid child neither holds the call nor outlives its timeout', async () => {
    const [waited, left] = [uniqueSleep(), uniqueSleep()]
    const { call } = open()
    const started = performance.now()
    const { value } = await call({ command: `setsid sleep ${waited} & wait`, timeoutMs: 500 })
    expect(value.timedOut).toBe(true)
    expect(processesWith(waited)).toEqual([])
    expect((await call({ command: `setsid sleep ${left} & echo x`, timeoutMs: 2000 })).value.stdout.text).toBe('x\n')
    expect(performance.now() - started).toBeLessThan(4000)
  })

  it('F5 busy loops in the background do not survive the timeout', async () => {
    const marker = `busy-${uniqueSleep()}`
    const command = `: ${marker}; for c in 1 2; do (while :; do :; done) & done; sleep 99`
    expect((await open().call({ command, timeoutMs: 500 })).value.timedOut).toBe(true)
    expect(processesWith(marker)).toEqual([])
  })

  it('F7 one timeout does not wedge the commands after it', async () => {
    const { call } = open()
    await call({ command: 'sleep 99', timeoutMs: 100 })
    const answers = await Promise.all([1, 2, 3, 4, 5].map((i) => call({ command: `echo ${i}` })))
    expect(answers.map(({ value }) => value.stdout.text)).toEqual(['1\n', '2\n', '3\n', '4\n', '5\n'])
  })

  it('F11 commands have no fixed tail', async () => {
    const { call } = open()
    await call({ command: 'true' })
    const times: number[] = []
    for (let i = 0; i < 50; i++) {
      const started = performance.now()
      await call({ command: 'true' })
      times.push(performance.now() - started)
    }
    expect(times.sort((a, b) => a - b)[25]).toBeLessThan(500)
  })

  it('F29 no character is broken, neither live nor in the result', async () => {
    const { call } = open({ maxOutputBytes: 1000 })
    const live: string[] = []
    const progress = (chunk: string) => void live.push(chunk)
    const split = await call({ command: "printf '\\xe4\\xbd'; sleep .1; printf '\\xa0'" }, { progress })
    expect([split.value.stdout.text, live.join('')]).toEqual(['你', '你'])
    const many = await call({ command: 'for i in {1..50000}; do printf 你; done' }, { progress })
    expect(many.value.stdout.text).toBe('你'.repeat(333))
    expect(many.text + live.join('')).not.toContain('\ufffd')
  })

  it('F33 a firehose neither starves timers nor fills memory', async () => {
    const { call } = open()
    const before = process.memoryUsage().rss
    let received = 0
    const progress = (chunk: string) => void (received += chunk.length)
    const started = performance.now()
    const flood = await call({ command: 'timeout 10 yes', timeoutMs: 1000 }, { progress })
    expect(performance.now() - started).toBeLessThan(5000)
    expect(flood.value).toMatchObject({ timedOut: true, stdout: { truncated: true } })
    expect(received).toBeLessThan(1_000_000)
    const line = await call({ command: "head -c 200M /dev/zero | tr '\\0' a" }, { progress })
    expect(line.value.stdout).toEqual({ text: 'a'.repeat(64_000), truncated: true })
    expect(process.memoryUsage().rss - before).toBeLessThan(150 * 1024 * 1024)
  })
})

describe('text and cards', () => {
  const result = (more: Partial<ShellRunResult>): ShellRunResult => ({
    exitCode: 0,
    signal: null,
    timedOut: false,
    aborted: false,
    timeoutMs: 1,
    stdout: { text: '', truncated: false },
    stderr: { text: '', truncated: false },
    ...more
  })

  it.each(['', 'a', 'a\n', 'x\n[exit code: 9]', '[killed by signal: SIGHUP]', 'a\n\n'])(
    'parses what it rendered: %j',
    (body) => {
      const stdout = { text: body, truncated: false }
      const shown = body === '' ? '(no output)' : body.replace(/\n$/, '')
      expect(parseCommand(renderCommand(result({ stdout, exitCode: 7 })))).toEqual({ output: shown, exitCode: 7 })
      expect(parseCommand(renderCommand(result({ stdout, exitCode: null, signal: 'SIGKILL' })))).toEqual({
        output: shown,
        signal: 'SIGKILL'
      })
      const timedOut = renderCommand(result({ stdout, timedOut: true, exitCode: 0 }))
      expect(parseCommand(timedOut)).toEqual({ output: `${shown}\n[timed out after 1ms]`, exitCode: 0 })
    }
  )

  it('reads only a marker at the very end', () => {
    expect(parseCommand('a\n[exit code: 3]\n')).toEqual({ output: 'a\n[exit code: 3]\n', exitCode: 0 })
    expect(parseCommand('[exit code: 3]')).toEqual({ output: '[exit code: 3]', exitCode: 0 })
  })

  it('presents calls, errors and odd results', () => {
    const { tool } = open()
    const args = { command: 'ls', description: 'lists', workdir: 'sub' }
    expect(tool.presentCall!(args)).toEqual({ card: 'terminal', title: 'ls', description: 'lists', cwd: 'sub' })
    expect(tool.presentCall!({ command: 1 })).toBeUndefined()
    const text = (content: string) => [{ type: 'text' as const, text: content }]
    expect(tool.presentResult!(args, { content: text('Error: ```\nx'), isError: true })).toEqual({
      card: 'generic',
      content: text('````console\nError: ```\nx\n````')
    })
    expect(tool.presentResult!(args, { content: [], isError: false })).toBeUndefined()
    expect(tool.presentResult!(args, { content: [...text('a'), ...text('b')], isError: false })).toBeUndefined()
  })

  it('is exclusive and has no deadline of its own', () => {
    const { tool } = open()
    expect(tool).not.toHaveProperty('isConcurrencySafe')
    expect(tool).not.toHaveProperty('timeoutMs')
    expect(Object.keys(tool.parameters['properties'] as object)).toEqual([
      'command',
      'description',
      'timeoutMs',
      'workdir'
    ])
  })
})
