import { spawn } from 'node:child_process'
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, describe, expect, it, onTestFinished } from 'vitest'
import { ManagedTrees } from '../../../server/backends/subprocess/managed-trees.ts'
import type { PtyLimits } from '../../../server/backends/terminals/messages.ts'
import { processRow } from '../../../server/backends/subprocess/process-table.js'
import { ShellTerminals } from '../../../server/backends/terminals/shell-terminals.ts'
import type { TerminalRequest, TerminalSession } from '../../../server/backends/terminals/terminals.ts'
import { processesWith, uniqueSleep } from '../../helpers/processes.ts'
import { temporaryDirectory } from '../../helpers/temporary-directory.ts'
import { until } from '../../helpers/until.ts'

const limits = { idleMs: 600, idleGraceMs: 200, timeoutMs: 30_000, graceMs: 1_000 }
const trees = new ManagedTrees({ dataDirectory: import.meta.dirname })
const warnings: string[] = []
const shells = shellsWith({})
afterAll(async () => {
  await shells.dispose()
  await trees.dispose()
})

function shellsWith(more: Partial<PtyLimits>, options: { maxSilenceMs?: number } = {}): ShellTerminals {
  const warn = (message: string) => warnings.push(message)
  return new ShellTerminals(trees, { limits: { ...limits, ...more }, warn, ...options })
}

let lastId = 0
async function open(
  request: Partial<TerminalRequest> = {},
  { from = shells, live = [] as { text: string; offset: number }[], signal = new AbortController().signal } = {}
): Promise<TerminalSession> {
  const options = {
    id: `pty-${++lastId}`,
    signal,
    onOutput: (text: string, offset: number) => live.push({ text, offset })
  }
  const terminal = await from.open({ cwd: temporaryDirectory(), ...request }, options)
  onTestFinished(() => terminal.close())
  return terminal
}

async function type(terminal: TerminalSession, text: string) {
  const { viewport, waitReason, sessionStatus, truncated } = await terminal.send(`${text}\r`).done
  return { viewport, waitReason, sessionStatus, truncated }
}

const hostPids = (): number[] =>
  readdirSync('/proc')
    .filter((pid) => {
      try {
        const line = readFileSync(`/proc/${pid}/cmdline`, 'utf8')
        // Between it and us is the process that owns all others.
        const owner = processRow(pid)?.parent ?? 0
        return line.includes('terminals/host/host-process.js') && processRow(owner)?.parent === process.pid
      } catch {
        return false
      }
    })
    .map(Number)

describe('waiting for the prompt (backends.md §5.2)', () => {
  it('C29 the shell lives on, and echoes what is typed', async () => {
    const terminal = await open()
    expect(terminal.motd).toBe('$ ')
    expect(terminal.status).toEqual({ kind: 'running' })
    expect(await type(terminal, 'export K=v; cd /')).toMatchObject({ waitReason: 'stdin_read' })
    expect(await type(terminal, 'echo $PWD-$K')).toEqual({
      viewport: 'echo $PWD-$K\n/-v\n$ ',
      waitReason: 'stdin_read',
      sessionStatus: { kind: 'running' },
      truncated: false
    })
  })

  it('C42 whatever becomes of the prompt', async () => {
    const terminal = await open()
    for (const line of ['PS1=zzz', 'set -x', 'trap "true" DEBUG', 'shopt -u promptvars', 'false', 'set +x']) {
      expect(await type(terminal, line), line).toMatchObject({ waitReason: 'stdin_read' })
    }
    expect((await type(terminal, 'echo ok')).viewport).toBe('echo ok\nok\n$ ')
    // Without the mark the shell's own waiting for input tells.
    expect(await type(terminal, 'PROMPT_COMMAND=; unset PROMPT_COMMAND')).toMatchObject({ waitReason: 'stdin_read' })
    expect(await type(terminal, 'echo still')).toMatchObject({ waitReason: 'stdin_read' })
    expect(await type(terminal, 'exec bash --norc')).toMatchObject({ waitReason: 'stdin_read' })
    expect(await type(terminal, 'exit 3')).toMatchObject({
      sessionStatus: { kind: 'exited', exitCode: 3, signal: null }
    })
  })

  it('C34 a program that reads its input, and one that is silent', async () => {
    const terminal = await open()
    expect(await type(terminal, 'cat')).toMatchObject({ waitReason: 'stdin_read', viewport: 'cat\n' })
    expect(await type(terminal, 'hello')).toMatchObject({ waitReason: 'stdin_read', viewport: 'hello\nhello\n' })
    expect((await terminal.send('\u0004').done).viewport).toBe('$ ')
    expect(await type(terminal, 'sleep 60')).toMatchObject({ waitReason: 'inferred_idle' })
    // Reads, but not from the terminal.
    await terminal.signal('SIGINT')
    await until(async () => (await terminal.read(0, 1)).text === '$ ')
    expect(await type(terminal, 'sleep 60 | cat')).toMatchObject({ waitReason: 'inferred_idle' })
  })

  it('C38 ends with the shell, all output first', async () => {
    const terminal = await open()
    const { viewport, waitReason, sessionStatus } = await type(terminal, 'seq 1 2000; exit 7')
    expect({ waitReason, sessionStatus }).toEqual({
      waitReason: 'session_exit',
      sessionStatus: { kind: 'exited', exitCode: 7, signal: null }
    })
    expect(viewport.split('\n').slice(-3)).toEqual(['2000', 'exit', ''])
    expect((await terminal.read(0, 2)).text).toBe('2000\nexit')
    await expect(terminal.send('x').done).rejects.toThrow(/has exited/)
    const killed = await open()
    expect(await type(killed, 'kill -9 $$')).toMatchObject({
      sessionStatus: { kind: 'exited', exitCode: null, signal: 'SIGKILL' }
    })
  })

  it('what was typed ahead is no prompt', async () => {
    const terminal = await open()
    expect(await type(terminal, 'sleep 1.2')).toMatchObject({ waitReason: 'inferred_idle' })
    const { viewport, waitReason } = await type(terminal, 'echo ahead')
    expect(waitReason).toBe('stdin_read')
    expect(viewport).toContain('\nahead\n')
  })

  it('a start that is not ready in time, or ends, leaves nothing', async () => {
    const sleep = uniqueSleep()
    const hanging = (...argv: [string, ...string[]]) => ({ launch: async () => ({ argv, env: {} }) })
    const aside = shellsAside({ timeoutMs: 300, idleMs: 100 })
    await expect(open(hanging('/bin/sleep', sleep), { from: aside })).rejects.toThrow(/not ready in time/)
    expect(processesWith(sleep)).toEqual([])
    await expect(open(hanging('/bin/true'), { from: aside })).rejects.toThrow(/ended before it was ready/)
    await expect(open(hanging('/no/such/shell'), { from: aside })).rejects.toThrow(/ended before/)
    await expect(open({ cwd: '/no/such/directory' })).rejects.toThrow(/working directory/)
    const abort = new AbortController()
    const opening = open(hanging('/bin/sleep', sleep), { signal: abort.signal })
    await until(() => processesWith(sleep).length > 0)
    abort.abort(new Error('called off'))
    await expect(opening).rejects.toThrow('called off')
    expect(processesWith(sleep)).toEqual([])
  })
})

function shellsAside(more: Partial<PtyLimits>, options: { maxSilenceMs?: number } = {}): ShellTerminals {
  const made = shellsWith(more, options)
  onTestFinished(() => made.dispose())
  return made
}

describe('what a terminal shows', () => {
  it('C40 F29 plain text, however it is cut', async () => {
    const terminal = await open()
    const line = String.raw`printf '\e[31mr'; sleep 0.1; printf 'ed\e'; sleep 0.1; printf '[0m\r\nover\rwrite\a \xe4\xbd'; sleep 0.1; printf '\xa0\xff.\n'`
    const { viewport } = await type(terminal, line)
    expect(viewport.slice(viewport.indexOf('\n') + 1)).toBe('red\nover\nwrite 你\ufffd.\n$ '.replace('你', '\u4f60'))
  })

  it('C41 F33 a flood is bounded and does not stop others', async () => {
    const flooding = await open()
    const other = await open()
    const flood = flooding.send(`yes ${'0123456789'.repeat(10)}\r`)
    await until(async () => (await flooding.read(0, 1)).totalLines > 5_000)
    expect((await type(other, 'echo quick')).viewport).toContain('\nquick\n')
    flood.cancel()
    const { viewport, truncated, isCancelled } = await flood.done
    expect({ truncated, isCancelled }).toEqual({ truncated: true, isCancelled: true })
    expect(Buffer.byteLength(viewport)).toBeLessThanOrEqual(256 * 1024)
    expect((await flooding.read(0, 100_000)).totalLines).toBeLessThanOrEqual(10_000)
    await flood.released
    await type(flooding, '')
    const long = await type(flooding, `head -c 1000000 /dev/zero | tr '\\0' a; echo`)
    expect(long).toMatchObject({ waitReason: 'stdin_read', truncated: true })
    expect(long.viewport.endsWith('aaa\n$ ')).toBe(true)
    expect((await flooding.read(1, 1)).text).toMatch(/^a{262144}$/)
  })

  it('noise of any kind is no end of it', async () => {
    const home = temporaryDirectory()
    const terminal = await open({ managedEnv: { HOME: home } })
    const { viewport } = await type(terminal, "head -c 100000 /dev/urandom; printf '\\e]open\\ePopen\\e['")
    // oxlint-disable-next-line no-control-regex -- these are what it is about
    expect(viewport).not.toMatch(/[\x00-\x08\x0b-\x1f\x7f-\x9f]/)
    expect(viewport.endsWith('$ ')).toBe(true)
    expect((await type(terminal, 'echo o""k')).viewport).toContain('\nok\n')
    expect(await type(terminal, 'exit')).toMatchObject({ waitReason: 'session_exit' })
    await terminal.close()
    expect(readdirSync(home), 'no history').toEqual([])
  })

  it('F23 keeps the output of a shell that ends at once', async () => {
    const terminals = await Promise.all(Array.from({ length: 6 }, () => open()))
    const shown = await Promise.all(terminals.map((terminal) => type(terminal, 'echo h""i; exit')))
    for (const { viewport, waitReason } of shown) {
      expect(waitReason).toBe('session_exit')
      expect(viewport).toContain('\nhi\n')
    }
  })

  it('F25 is read without anybody watching', async () => {
    const terminal = await open()
    expect(await type(terminal, 'yes | head -c 1M; echo E > end')).toMatchObject({ waitReason: 'stdin_read' })
  })

  it('F27 takes 300 lines at once, and bytes that a program reads slowly', async () => {
    const cwd = temporaryDirectory()
    const terminal = await open({ cwd })
    const document = Array.from({ length: 300 }, (_, at) => `line ${at} ${'x'.repeat(40)}\n`).join('')
    await type(terminal, `cat <<'EOF' > f\n${document}EOF`)
    await until(() => existsSync(join(cwd, 'f')) && statSync(join(cwd, 'f')).size >= document.length)
    expect(readFileSync(join(cwd, 'f'), 'utf8')).toBe(document)
    await type(terminal, 'sleep 0.5; head -c 20000 > g')
    await type(terminal, `${'y'.repeat(99)}\n`.repeat(200).slice(0, -1))
    await until(() => existsSync(join(cwd, 'g')) && statSync(join(cwd, 'g')).size === 20_000)
  })

  it('F31 F35 pieces by offset, which wait for what comes next; live ones fit in', async () => {
    const live: { text: string; offset: number }[] = []
    const terminal = await open({}, { live })
    const never = new AbortController()
    const beyond = terminal.output(999_999, 100, never.signal)
    await type(terminal, 'echo one')
    const { text, from } = await beyond
    expect('echo one\none\n$ ').toContain(text)
    expect(text).not.toBe('')
    expect(from).toBe(2)
    const all = await terminal.output(0, 10_000, never.signal)
    expect(all).toEqual({ text: '$ echo one\none\n$ ', from: 0, next: 17, lossy: false })
    const waiting = terminal.output(all.next, 100, never.signal)
    never.abort()
    expect(await waiting).toMatchObject({ text: '', next: 17 })
    await until(() => live.map((piece) => piece.text).join('') === all.text)
    for (const piece of live) {
      const found = await terminal.output(piece.offset, Buffer.byteLength(piece.text), never.signal)
      expect(found.text).toBe(piece.text)
    }
    const last = terminal.output(all.next, 100, new AbortController().signal)
    await terminal.close()
    await last.catch(() => undefined)
  })
})

describe('signals and the end', () => {
  it('C35 reach the foreground, and never the shell with SIGKILL', async () => {
    const terminal = await open()
    await expect(terminal.signal('SIGKILL')).rejects.toThrow(/shell itself/)
    const sleep = uniqueSleep()
    const send = terminal.send(`sleep ${sleep}\r`)
    await until(() => processesWith(`sleep ${sleep}`).length > 0)
    expect(await terminal.signal('SIGTSTP')).not.toBe(terminal.pid)
    expect((await send.done).viewport).toContain('Stopped')
    expect(terminal.status).toEqual({ kind: 'running' })
    expect(await type(terminal, 'jobs')).toMatchObject({ waitReason: 'stdin_read' })
  })

  it('a cancelled send is interrupted at once, written or not', async () => {
    const terminal = await open()
    const sleep = uniqueSleep()
    const send = terminal.send(`sleep ${sleep}\r`)
    await until(() => processesWith(`sleep ${sleep}`).length > 0)
    send.cancel()
    send.cancel()
    expect(await send.done).toMatchObject({ isCancelled: true })
    await until(() => processesWith(`sleep ${sleep}`).length === 0)
    // What nobody reads fills the terminal: the rest of it must not be what the next command is.
    await type(terminal, '')
    const stuck = terminal.send(`stty -echo; sleep ${sleep}\r${'echo lost\n'.repeat(50_000)}`)
    await until(() => processesWith(`sleep ${sleep}`).length > 0)
    stuck.cancel()
    expect(await stuck.done).toMatchObject({ isCancelled: true })
    await stuck.released
    await until(() => processesWith(`sleep ${sleep}`).length === 0)
    await until(async () => (await type(terminal, 'echo n""ow')).viewport.includes('now\n'))
  })

  it('is over after the time limit though output goes on, and keeps its slot while input is still to be written', async () => {
    const aside = shellsAside({ timeoutMs: 2_500 })
    const busy = await open({}, { from: aside })
    const ended = type(busy, 'while :; do echo x; sleep 0.05; done')
    const terminal = await open({}, { from: aside })
    const send = terminal.send(`sleep 600\r${'x'.repeat(100_000)}`)
    let isReleased = false
    void send.released.then(() => (isReleased = true))
    expect((await send.done).waitReason).toBe('timeout')
    await terminal.read(0, 1)
    expect(isReleased).toBe(false)
    expect(await ended).toMatchObject({ waitReason: 'timeout', sessionStatus: { kind: 'running' } })
    await terminal.signal('SIGINT')
    await terminal.close()
    await send.released
  })

  it('ends daemons, stopped jobs, those that ignore SIGTERM, and what an exited shell left', async () => {
    const sleep = uniqueSleep()
    const terminal = await open()
    const script = [
      `setsid sleep ${sleep} &`,
      `(setsid bash -c 'trap "" TERM HUP; while :; do sleep ${sleep}; done' &)`,
      `nohup sleep ${sleep} > /dev/null 2>&1 & disown`,
      `sleep ${sleep} & kill -STOP $!`,
      `bash -c 'trap "" TERM; sleep ${sleep}' &`
    ].join('\n')
    await type(terminal, script)
    await until(() => processesWith(`sleep ${sleep}`).length >= 5)
    expect(await type(terminal, 'exit')).toBeDefined()
    await until(async () => {
      if (terminal.status.kind === 'running') await type(terminal, 'exit').catch(() => undefined)
      return terminal.status.kind === 'exited'
    })
    expect(processesWith(`sleep ${sleep}`).length).toBeGreaterThan(0)
    await terminal.close()
    expect(processesWith(sleep)).toEqual([])
  })

  it('a close ends a send under way, and a loop in the shell itself', async () => {
    const sleep = uniqueSleep()
    const terminal = await open()
    const send = terminal.send(`trap '' HUP TERM INT; while :; do sleep ${sleep}; done\r`)
    await until(() => processesWith(`sleep ${sleep}`).length > 0)
    await terminal.close()
    expect(terminal.status.kind).toBe('exited')
    expect(await terminal.read(0, 1)).toMatchObject({ text: '', totalLines: 0 })
    expect(await send.done).toMatchObject({ waitReason: 'session_exit', sessionStatus: { kind: 'exited' } })
    await send.released
    expect(processesWith(sleep)).toEqual([])
  })

  it('C41 S29 the environment has no secret of the server, and no descriptor of it is open', async () => {
    const before = { ...process.env }
    Object.assign(process.env, { FOO_TOKEN: 'x', TOOLWRIGHT_STALE: 'z' })
    onTestFinished(() => void (process.env = before))
    const terminal = await open({ managedEnv: { TOOLWRIGHT_SESSION_ID: 'A' } })
    const line = 'echo "[$FOO_TOKEN$TOOLWRIGHT_STALE][$TERM $PAGER $TOOLWRIGHT_SESSION_ID $TOOLWRIGHT_PTY_SESSION_ID]"'
    expect((await type(terminal, line)).viewport).toContain(`\n[][dumb cat A pty-${lastId}]\n`)
    expect((await type(terminal, `tr '\\0' '\\n' < /proc/$PPID/environ | grep -c FOO_`)).viewport).toContain('\n0\n')
  })

  it('S29 a shell has no descriptor but those of its own terminal, whatever else is open', async () => {
    const [, second] = [await open(), await open()]
    const own = (await type(second, 'tty')).viewport.split('\n')[1]
    const { viewport } = await type(second, 'ls -l /proc/$$/fd')
    const links = [...viewport.matchAll(/ -> '?([^'\n]*)/g)].map(([, link]) => link)
    expect(own).toMatch(/^\/dev\/pts\/\d+$/)
    expect(new Set(links)).toEqual(new Set([own]))
    expect(links.length).toBeGreaterThan(3)
  })
})

describe('the process that holds the terminals', () => {
  it.each([
    ['dies', 'SIGKILL'],
    ['is stopped', 'SIGSTOP']
  ] as const)(
    '%s with a send under way: its terminals end, and the next one has a new process',
    async (_how, signal) => {
      const aside = shellsAside({}, { maxSilenceMs: 3_000 })
      const others = new Set(hostPids())
      const sleep = uniqueSleep()
      const terminal = await open({}, { from: aside })
      const [host] = hostPids().filter((pid) => !others.has(pid))
      const send = terminal.send(`setsid sleep ${sleep} & sleep ${sleep}\r`)
      await until(() => processesWith(`sleep ${sleep}`).length >= 2)
      const waiting = terminal.output(10_000, 10, new AbortController().signal)
      process.kill(host!, signal)
      await expect(send.done).rejects.toMatchObject({ code: 'TERMINAL_LOST' })
      await send.released
      expect(terminal.status).toEqual({ kind: 'exited', exitCode: null, signal: null })
      expect(await terminal.read(0, 5)).toMatchObject({ text: '', totalLines: 0 })
      expect((await waiting.catch(() => ({ text: '' }))).text).toBe('')
      await expect(terminal.signal('SIGINT')).rejects.toMatchObject({ code: 'TERMINAL_LOST' })
      await terminal.close()
      expect(processesWith(`sleep ${sleep}`)).toEqual([])
      await until(() => warnings.length > 0)
      const next = await open({}, { from: aside })
      expect((await type(next, 'echo again')).viewport).toContain('\nagain\n')
    }
  )

  it('R8 ends everything when the server is killed', async () => {
    const sleep = uniqueSleep()
    const program = fileURLToPath(new URL('../../fixtures/programs/terminal-holder.ts', import.meta.url))
    const child = spawn(process.execPath, ['--import', 'tsx', program, temporaryDirectory(), `sleep ${sleep}`], {
      stdio: ['ignore', 'ignore', 'inherit']
    })
    onTestFinished(() => void child.kill('SIGKILL'))
    await until(() => processesWith(sleep).filter((command) => command.startsWith('sleep')).length >= 2, 30_000)
    child.kill('SIGKILL')
    await until(() => processesWith(sleep).length === 0)
  })

  it('R7 leaves no terminal device and no process behind', async () => {
    const devices = () => readdirSync('/dev/pts').length
    const before = devices()
    for (let round = 0; round < 2; round++) {
      const terminals = await Promise.all(Array.from({ length: 4 }, () => open()))
      await Promise.all(terminals.map((terminal) => terminal.close()))
    }
    await until(() => devices() <= before)
  })
})
