import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, it, onTestFinished } from 'vitest'
import { jobTools } from '../../../plugins/tools/jobs.ts'
import { terminalTools } from '../../../plugins/tools/terminal.ts'
import {
  keepHead,
  renderOpened,
  renderPage,
  renderSent,
  renderTerminals
} from '../../../plugins/tools/terminal-text.ts'
import { JobRegistry } from '../../../server/backends/jobs/job-registry.ts'
import { ManagedTrees } from '../../../server/backends/subprocess/managed-trees.ts'
import { ShellTerminals } from '../../../server/backends/terminals/shell-terminals.ts'
import { TerminalRegistry } from '../../../server/backends/terminals/terminal-registry.ts'
import type { RunContext } from '../../../server/pipeline/execution.ts'
import { validateValue } from '../../../server/schema/validate.ts'
import { processesWith, uniqueSleep } from '../../helpers/processes.ts'
import { agentOf, runContext } from '../../helpers/run-context.ts'
import { temporaryDirectory } from '../../helpers/temporary-directory.ts'
import { until } from '../../helpers/until.ts'

const trees = new ManagedTrees({ dataDirectory: import.meta.dirname })
afterAll(() => trees.dispose())

const [A, B] = [agentOf('A'), agentOf('B')]

/** The terminal tools, and those for jobs, over real terminals; `call` gives value and text of a call of agent A. */
function setUp({ maxResultBytes = 262_144, background = true } = {}) {
  const cwd = temporaryDirectory()
  const jobs = new JobRegistry({
    maxConcurrentPerOwner: 10,
    maxFinishedPerOwner: 100,
    maxFinished: 1000,
    isOwnerLive: () => true,
    warn: () => undefined
  })
  jobs.attachController(() => true)
  const terminals = new TerminalRegistry({
    maxPerOwner: 16,
    maxTotal: 128,
    maxInputBytes: 1_000_000,
    isOwnerLive: () => true,
    hold: () => () => undefined,
    onOutput: () => undefined
  })
  const shell = new ShellTerminals(trees, { limits: { idleMs: 700, graceMs: 500 }, warn: () => undefined })
  terminals.register(shell)
  onTestFinished(async () => {
    await jobs.dispose()
    await terminals.dispose()
    await shell.dispose()
  })
  const services = { terminals, workspaces: { cwdOf: () => cwd, home: '/home/of/toolwright' } }
  const tools = new Map(
    [
      ...terminalTools({ ...services, ...(background && { jobs }) }, { maxResultBytes }),
      ...jobTools(jobs, { waitTimeoutMs: 30_000, maxWaitTimeoutMs: 60_000 })
    ].map((tool) => [tool.name, tool])
  )
  const call = async (name: string, args: Record<string, unknown> = {}, exec: Partial<RunContext> = {}) => {
    const tool = tools.get(name)!
    const value = (await tool.execute(args as never, runContext({ agent: A, ...exec }))) as any
    expect(validateValue(tool.output.schema, value, 'value'), name).toEqual([])
    const [block] = tool.output.render(args as never, value) as unknown as [{ text: string }]
    const content = [{ type: 'text', text: block.text }]
    const meta = tool.output.presentationMeta?.(args as never, value)
    return { value, text: block.text, meta, card: tool.presentResult?.(args as never, { content, isError: false }) }
  }
  const callCard = (name: string, args: Record<string, unknown>) => tools.get(name)!.presentCall?.(args as never)
  return { call, callCard, tools, cwd, terminals }
}

describe('terminals (backends.md §5.3)', () => {
  it('C29 state persists', async () => {
    const { call, cwd } = setUp()
    mkdirSync(join(cwd, 'sub'))
    const opened = await call('terminal_open', { type: 'shell', name: 'main', cwd: 'sub' })
    expect(opened.value).toMatchObject({ sessionId: 'pty-1', name: 'main', type: 'shell', status: { kind: 'running' } })
    expect(opened.value.pid).toBeGreaterThan(1)
    expect(opened.text).toBe('pty-1 (main) [shell] is open\n$ ')
    expect((await call('terminal_send', { sessionId: 'pty-1', text: 'pwd' })).value.viewport).toContain(
      `\n${cwd}/sub\n`
    )
    await call('terminal_send', { sessionId: 'pty-1', text: 'export K=v; cd /' })
    const { value, text, meta, card } = await call('terminal_send', { sessionId: 'pty-1', text: 'echo $PWD-$K' })
    expect(value).toEqual({
      kind: 'foreground',
      viewport: 'echo $PWD-$K\n/-v\n$ ',
      waitReason: 'stdin_read',
      sessionStatus: { kind: 'running' },
      truncated: false
    })
    expect(text).toBe('echo $PWD-$K\n/-v\n$ \n[wait: stdin_read]\n[session: running]')
    const { kind: _kind, ...shown } = value
    expect(meta).toEqual(shown)
    expect(card).toEqual({ card: 'terminal', output: text })
    const line = 'echo $TOOLWRIGHT_SHELL $TOOLWRIGHT_SESSION_ID $TOOLWRIGHT_HOME $TOOLWRIGHT_PTY_SESSION_ID'
    const environment = await call('terminal_send', { sessionId: 'pty-1', text: line })
    expect(environment.value.viewport).toContain('\n1 A /home/of/toolwright pty-1\n')
    expect((await call('terminal_list')).text).toBe(`pty-1 (main) [shell] running pid=${opened.value.pid}`)
    expect((await call('terminal_close', { sessionId: 'pty-1' })).value).toEqual({
      sessionId: 'pty-1',
      outcome: 'closed'
    })
    expect((await call('terminal_list')).text).toBe('(no terminal sessions)')
  })

  it('C30 reads pages from the newest end', async () => {
    const { call } = setUp()
    await call('terminal_open', { type: 'shell' })
    await call('terminal_send', { sessionId: 'pty-1', text: 'seq 1 100' })
    const page = (args: object) => call('terminal_read', { sessionId: 'pty-1', ...args })
    const newest = await page({ offset: 0, count: 5 })
    expect(newest.value).toMatchObject({ text: '97\n98\n99\n100\n$ ', lineBegin: 0, lineEnd: 5 })
    expect(newest.text).toBe('97\n98\n99\n100\n$ \n[lines: 0-5 of 102]')
    expect(await page({ offset: 0, count: 5 })).toEqual(newest)
    expect((await page({ offset: 5, count: 5 })).value).toMatchObject({
      text: '92\n93\n94\n95\n96',
      lineBegin: 5,
      lineEnd: 10
    })
    expect((await page({})).value.totalLines).toBe(102)
    expect((await page({ offset: 500 })).text).toBe('(no retained output)\n[lines: 500-500 of 102]')
    for (const args of [{ count: 0 }, { offset: -1 }, { offset: 1.5 }]) await expect(page(args)).rejects.toThrow()
  })

  it('C31 C32 belong to their agent, and names are labels', async () => {
    const { call } = setUp()
    await call('terminal_open', { type: 'shell', name: 'main' })
    const asB = { agent: B }
    for (const [name, args] of [
      ['terminal_send', { text: 'x' }],
      ['terminal_read', {}],
      ['terminal_signal', { signal: 'SIGINT' }],
      ['terminal_close', {}]
    ] as const) {
      await expect(call(name, { sessionId: 'pty-1', ...args }, asB)).rejects.toMatchObject({ code: 'FOREIGN_SESSION' })
      await expect(call(name, { sessionId: 'main', ...args })).rejects.toMatchObject({ code: 'NO_SESSION' })
    }
    expect((await call('terminal_list', {}, asB)).value).toEqual([])
    const { agent: _agent, ...nobody } = runContext({ agent: A })
    for (const [name, args] of [
      ['terminal_list', {}],
      ['terminal_open', { type: 'shell' }]
    ] as const) {
      const { tools } = setUp()
      await expect(async () => tools.get(name)!.execute(args, nobody)).rejects.toThrow(/session/)
    }
    await expect(call('terminal_open', { type: 'shell', name: 'main' })).rejects.toMatchObject({
      code: 'DUPLICATE_NAME'
    })
    await expect(call('terminal_open', { type: 'shell', name: '' })).rejects.toThrow()
    await expect(call('terminal_open', { type: 'nope' })).rejects.toMatchObject({ code: 'NO_BACKEND' })
    await expect(call('terminal_signal', { sessionId: 'pty-1', signal: 'SIGUSR1' })).rejects.toMatchObject({
      code: 'INVALID_ARGS'
    })
    expect((await call('terminal_open', { type: 'shell', name: 'main' }, asB)).value.name).toBe('main')
  })

  it('C35 C36 a send in the background, signalled; one at a time', async () => {
    const { call } = setUp()
    const sleep = uniqueSleep()
    const { value: opened } = await call('terminal_open', { type: 'shell' })
    const started = await call('terminal_send', {
      sessionId: 'pty-1',
      text: `echo begun; sleep ${sleep}; echo over`,
      run_in_background: true
    })
    expect(started.text).toBe('started background job pty-send-1')
    expect(started.value).toEqual({ kind: 'background', jobId: 'pty-send-1' })
    await until(() => processesWith(`sleep ${sleep}`).length > 0)
    await expect(call('terminal_send', { sessionId: 'pty-1', text: 'x' })).rejects.toMatchObject({
      code: 'SEND_ACTIVE'
    })
    const refused = call('terminal_send', { sessionId: 'pty-1', text: 'x', run_in_background: true })
    await expect(refused).rejects.toMatchObject({ code: 'SEND_ACTIVE' })
    expect((await call('terminal_read', { sessionId: 'pty-1' })).text).toContain('begun\n')
    const { value } = await call('terminal_signal', { sessionId: 'pty-1', signal: 'SIGINT' })
    expect(value.delivered).toBe(true)
    expect(value.targetPgid).not.toBe(opened.pid)
    const read = await call('job_output', { job_id: 'pty-send-1', wait: true })
    expect(read.value.job).toMatchObject({
      status: 'completed',
      kind: 'pty-send',
      label: `pty-1: echo begun; sleep ${sleep}; echo over`
    })
    expect(read.text).toContain('begun\n')
    expect((await call('job_output', { job_id: 'pty-send-1' })).text).toMatch(
      /^\(no new output\)\n\[status: completed, wait: /
    )
    await expect(call('terminal_signal', { sessionId: 'pty-1', signal: 'SIGKILL' })).rejects.toThrow(/shell itself/)
    expect((await call('terminal_send', { sessionId: 'pty-1', text: 'echo ok' })).value.waitReason).toBe('stdin_read')
  })

  it('job_output is incremental, job_kill interrupts, and the shell’s end is told', async () => {
    const { call } = setUp()
    const sleep = uniqueSleep()
    await call('terminal_open', { type: 'shell' })
    await call('terminal_send', { sessionId: 'pty-1', text: `echo o""ne; sleep ${sleep}`, run_in_background: true })
    let first = ''
    await until(async () =>
      (first += (await call('job_output', { job_id: 'pty-send-1' })).value.text).includes('one\n')
    )
    // An interrupt that comes between two commands of a line ends neither.
    await until(() => processesWith(`sleep ${sleep}`).length > 0)
    expect((await call('job_kill', { job_id: 'pty-send-1' })).value.outcome).toBe('cancellation-requested')
    const killed = await call('job_output', { job_id: 'pty-send-1', wait: true })
    expect(killed.value.job.status).toBe('killed')
    expect(killed.text).not.toContain('one\n')
    await until(() => processesWith(`sleep ${sleep}`).length === 0)
    await call('terminal_send', { sessionId: 'pty-1', text: '' })
    await call('terminal_send', { sessionId: 'pty-1', text: 'echo bye; exit 3', run_in_background: true })
    const ended = await call('job_output', { job_id: 'pty-send-2', wait: true })
    expect(ended.text).toMatch(/\nbye\nexit\n\[status: completed, session exited code=3 signal=none\]$/)
    await call('terminal_close', { sessionId: 'pty-1' })
    expect((await call('job_output', { job_id: 'pty-send-2' })).text).toMatch(/^\(no new output\)/)
  })

  it('without jobs nothing goes to the background, and nothing is written', async () => {
    const { call, tools } = setUp({ background: false })
    await call('terminal_open', { type: 'shell' })
    expect(JSON.stringify(tools.get('terminal_send')!.parameters)).not.toContain('run_in_background')
    const args = { sessionId: 'pty-1', text: 'echo canary', run_in_background: true }
    await expect(call('terminal_send', args)).rejects.toThrow(/background/)
    expect((await call('terminal_read', { sessionId: 'pty-1' })).text).not.toContain('canary')
  })

  it('an aborted send is interrupted, and one that was aborted before writes nothing', async () => {
    const { call } = setUp()
    const sleep = uniqueSleep()
    await call('terminal_open', { type: 'shell' })
    const abort = new AbortController()
    const send = call('terminal_send', { sessionId: 'pty-1', text: `sleep ${sleep}` }, { signal: abort.signal })
    await until(() => processesWith(`sleep ${sleep}`).length > 0)
    abort.abort()
    await send
    await until(() => processesWith(`sleep ${sleep}`).length === 0)
    for (const run_in_background of [false, true]) {
      const args = { sessionId: 'pty-1', text: 'echo canary', run_in_background }
      await expect(call('terminal_send', args, { signal: abort.signal })).rejects.toMatchObject({ code: 'ABORTED' })
    }
    expect((await call('terminal_send', { sessionId: 'pty-1', text: 'true' })).text).not.toContain('canary')
  })

  it('C38 C41 an exited shell stays listed; a small limit keeps the id', async () => {
    const { call } = setUp({ maxResultBytes: 64 })
    const opened = await call('terminal_open', { type: 'shell', name: 'n'.repeat(64) })
    expect(opened.text).toContain('pty-1')
    expect(Buffer.byteLength(opened.text)).toBeLessThanOrEqual(64)
    const sent = await call('terminal_send', { sessionId: 'pty-1', text: 'printf 你%.0s {1..500}; echo; exit 7' })
    expect(sent.value).toMatchObject({ waitReason: 'session_exit', sessionStatus: { kind: 'exited', exitCode: 7 } })
    expect(Buffer.byteLength(sent.text)).toBeLessThanOrEqual(64)
    expect(sent.text).not.toContain('\ufffd')
    expect(Buffer.byteLength((sent.meta as { viewport: string }).viewport)).toBeLessThanOrEqual(64)
    expect((await call('terminal_list')).text).toMatch(/ \[shell\] exited code=7 signal=none pid=\d+$/)
    await expect(call('terminal_send', { sessionId: 'pty-1', text: 'x' })).rejects.toThrow(/has exited/)
    expect((await call('terminal_read', { sessionId: 'pty-1', count: 1 })).value.text).toBe('exit')
    await call('terminal_close', { sessionId: 'pty-1' })
    await expect(call('terminal_read', { sessionId: 'pty-1' })).rejects.toMatchObject({ code: 'NO_SESSION' })
  })
})

describe('texts and cards', () => {
  const sent = { viewport: '', waitReason: 'timeout', sessionStatus: { kind: 'running' }, truncated: false } as const

  it('are within their limit, whole where they fit', () => {
    expect(renderSent(sent, 100)).toBe('(no new output)\n[wait: timeout]\n[session: running]')
    expect(renderSent({ ...sent, viewport: 'a\n', truncated: true }, 100)).toBe(
      '[output truncated]\na\n[wait: timeout]\n[session: running]'
    )
    for (let maxBytes = 64; maxBytes < 400; maxBytes++) {
      const viewport = '🦊é'.repeat(60)
      const text = renderSent({ ...sent, viewport }, maxBytes)
      expect(Buffer.byteLength(text)).toBeLessThanOrEqual(maxBytes)
      expect(text).not.toContain('\ufffd')
      expect(text.endsWith('\n[wait: timeout]\n[session: running]')).toBe(true)
      const page = { text: viewport, totalLines: 1, lineBegin: 0, lineEnd: 1, truncated: false }
      expect(Buffer.byteLength(renderPage(page, maxBytes))).toBeLessThanOrEqual(maxBytes)
      const info = { sessionId: 'pty-1', type: 'shell', status: { kind: 'running' } } as const
      expect(renderOpened({ ...info, motd: viewport }, maxBytes).startsWith('pty-1 [shell]')).toBe(true)
      expect(Buffer.byteLength(keepHead(viewport, maxBytes))).toBeLessThanOrEqual(maxBytes)
    }
    const exited = { kind: 'exited', exitCode: null, signal: 'SIGKILL' } as const
    expect(renderTerminals([{ sessionId: 'pty-2', type: 'shell', status: exited }])).toBe(
      'pty-2 [shell] exited code=none signal=SIGKILL'
    )
  })

  it('show what is typed in one visible line', () => {
    const { callCard } = setUp()
    const card = (args: object) => callCard('terminal_send', { sessionId: 'pty-1', text: 'ls', ...args })
    expect(card({})).toEqual({ card: 'terminal', title: 'ls', description: 'terminal pty-1' })
    expect(card({ text: '' })).toMatchObject({ title: '(input)' })
    expect(card({ text: '\u0003', submit: false })).toMatchObject({ title: '\\u{3}' })
    expect(card({ text: 'a\nrm\u202e -rf\u200b /\u2028' })).toMatchObject({ title: 'a\\nrm\\u{202e} -rf\\u{200b} /' })
    expect(card({ text: 'ls\u{e002d}\u3164❤\ufe0f' })).toMatchObject({ title: 'ls\\u{e002d}\\u{3164}❤\ufe0f' })
    expect(card({ run_in_background: true })).toMatchObject({ card: 'generic', kind: 'execute', title: 'ls' })
    expect(card({ text: 5 })).toBeUndefined()
    const kinds = (name: string, args: object) => callCard(name, args as never)
    expect(kinds('terminal_open', { type: 'shell' })).toMatchObject({ card: 'generic', kind: 'execute' })
    expect(kinds('terminal_read', { sessionId: 'pty-1' })).toMatchObject({ kind: 'read' })
    expect(kinds('terminal_signal', { sessionId: 'pty-1', signal: 'SIGINT' })).toMatchObject({ kind: 'execute' })
    expect(kinds('terminal_close', { sessionId: 'pty-1' })).toMatchObject({ kind: 'delete' })
    expect(kinds('terminal_list', {})).toMatchObject({ kind: 'read' })
  })
})
