import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, it, onTestFinished } from 'vitest'
import { bashTool } from '../../../plugins/tools/bash.ts'
import { jobTools } from '../../../plugins/tools/jobs.ts'
import { capText } from '../../../plugins/tools/jobs-text.ts'
import { JobRegistry } from '../../../server/backends/jobs/job-registry.ts'
import type { JobWork } from '../../../server/backends/jobs/jobs.ts'
import { BashShell } from '../../../server/backends/shell/bash-shell.ts'
import type { ShellLimits } from '../../../server/backends/shell/command-shell.ts'
import { ManagedTrees } from '../../../server/backends/subprocess/managed-trees.ts'
import type { RunContext } from '../../../server/pipeline/execution.ts'
import type { ToolResult } from '../../../server/pipeline/result.ts'
import { processesWith, uniqueSleep } from '../../helpers/processes.ts'
import { agentOf, runContext } from '../../helpers/run-context.ts'
import { temporaryDirectory } from '../../helpers/temporary-directory.ts'
import { until } from '../../helpers/until.ts'

const trees = new ManagedTrees({ dataDirectory: import.meta.dirname })
afterAll(() => trees.dispose())

/** `bash`, `job_output`, `job_list` and `job_kill` over real processes; `call` gives value and text of a call of agent A. */
function open(limits: Partial<ShellLimits> = {}) {
  const cwd = temporaryDirectory()
  const completed: string[] = []
  const jobs = new JobRegistry({
    maxConcurrentPerOwner: 10,
    maxFinishedPerOwner: 100,
    maxFinished: 1000,
    isOwnerLive: () => true,
    warn: () => undefined
  })
  jobs.attachController(() => true)
  jobs.onCompletion(({ job }) => completed.push(job.id))
  onTestFinished(() => jobs.dispose())
  const shell = new BashShell(trees, { limits: { graceMs: 500, ...limits } })
  const tools = new Map(
    [
      bashTool({ shell, jobs, workspaces: { cwdOf: () => cwd } }),
      ...jobTools(jobs, { waitTimeoutMs: 30_000, maxWaitTimeoutMs: 60_000 })
    ].map((tool) => [tool.name, tool])
  )
  const agent = agentOf('A')
  const call = async (name: string, args: Record<string, unknown>, exec: Partial<RunContext> = {}) => {
    const tool = tools.get(name)!
    const whole = (name === 'bash' ? { description: 'x', ...args } : args) as never
    const value = (await tool.execute(whole, runContext({ agent, ...exec }))) as any
    const [block] = tool.output.render(whole, value) as unknown as [{ text: string }]
    return { value, text: block.text }
  }
  /** Starts a command in the background and gives the job's id. */
  const start = async (command: string, exec: Partial<RunContext> = {}): Promise<string> =>
    (await call('bash', { command, run_in_background: true }, exec)).value.jobId
  const output = (id: string, more: Record<string, unknown> = {}, exec: Partial<RunContext> = {}) =>
    call('job_output', { job_id: id, ...more }, exec)
  return { agent, call, completed, cwd, jobs, output, start, tools }
}

const lastLine = (text: string): string | undefined => text.split('\n').at(-1)

describe('bash in the background', () => {
  it('C17 start and collect', async () => {
    const { call, output } = open()
    const command = 'echo one; until [ -e go ]; do sleep .02; done; echo two'
    const { value, text } = await call('bash', { command, run_in_background: true })
    expect([value, text]).toEqual([{ kind: 'background', jobId: 'bash-1' }, 'started background job bash-1'])
    let early = ''
    await until(async () => (early = (await output('bash-1')).text).includes('one'))
    expect(early).toBe('one\n[status: running]')
    await call('bash', { command: 'touch go' })
    expect((await output('bash-1', { wait: true })).text).toBe('two\n[status: completed, exit code: 0]')
    for (let i = 0; i < 2; i++) {
      expect((await output('bash-1')).text).toBe('(no new output)\n[status: completed, exit code: 0]')
    }
  })

  it('C17 any exit code is completed, and a death by signal killed', async () => {
    const { output, start } = open()
    const wait = async (command: string) => lastLine((await output(await start(command), { wait: true })).text)
    expect(await wait('exit 4')).toBe('[status: completed, exit code: 4]')
    expect(await wait('kill -KILL $$')).toBe('[status: killed, signal: SIGKILL]')
  })

  it('merges the streams of each delta, and tells what could not be started once', async () => {
    const { output, start, call } = open()
    const id = await start('printf out; printf err >&2')
    expect((await output(id, { wait: true })).text).toBe('out\n[stderr]\nerr\n[status: completed, exit code: 0]')
    const { value } = await call('bash', { command: 'true', run_in_background: true, workdir: 'nowhere' })
    const failed = await output(value.jobId, { wait: true })
    expect(failed.text).toMatch(/^\[stderr\]\ncould not start .*\n\[status: killed, killed before exit\]$/)
    expect((await output(value.jobId)).text).toBe('(no new output)\n[status: killed, killed before exit]')
  })

  it('has no time limit, and its call is over with the id', async () => {
    const { start, output, call } = open({ timeoutMs: 50 })
    const controller = new AbortController()
    const id = await start('until [ -e go ]; do sleep .02; done; echo done', { signal: controller.signal })
    controller.abort()
    await output(id, { wait: true, timeout_ms: 300 })
    await call('bash', { command: 'touch go' })
    expect((await output(id, { wait: true })).text).toBe('done\n[status: completed, exit code: 0]')
  })

  it('refuses in order, and a refused start starts nothing', async () => {
    const { call, cwd, jobs, agent } = open()
    const background = { command: 'touch canary', run_in_background: true }
    await expect(call('bash', { ...background, command: ' ' })).rejects.toThrow(/blank/)
    await expect(call('bash', background, { signal: AbortSignal.abort() })).rejects.toMatchObject({ code: 'ABORTED' })
    for (let i = 0; i < 10; i++) {
      jobs.start({
        kind: 'other',
        label: 'x',
        owner: agent,
        run: () => ({ done: new Promise(() => undefined), cancel: fail })
      })
    }
    await expect(call('bash', background)).rejects.toMatchObject({ code: 'JOB_LIMIT' })
    await expect(call('bash', background)).rejects.toThrow(/\b10\b.*job_kill/)
    expect(existsSync(join(cwd, 'canary'))).toBe(false)
  })

  it('C25 is neither offered nor possible when there are no jobs, nor a tool to read them', async () => {
    const { cwd } = open()
    const shell = new BashShell(trees, { limits: { graceMs: 500 } })
    const jobs = new JobRegistry({
      maxConcurrentPerOwner: 1,
      maxFinishedPerOwner: 1,
      maxFinished: 1,
      isOwnerLive: () => true,
      warn: () => undefined
    })
    const workspaces = { cwdOf: () => cwd }
    const args = { command: 'touch canary', description: 'x', run_in_background: true }
    const without = bashTool({ shell, workspaces })
    expect(without.parameters['properties']).not.toHaveProperty('run_in_background')
    await expect(without.execute(args, runContext())).rejects.toThrow(/background/)
    const unserved = bashTool({ shell, workspaces, jobs })
    expect(unserved.parameters['properties']).toHaveProperty('run_in_background')
    await expect(unserved.execute(args, runContext())).rejects.toThrow(/background/)
    expect(existsSync(join(cwd, 'canary'))).toBe(false)
  })

  it('shows generic cards', () => {
    const tool = open().tools.get('bash')!
    const args = { command: 'make', description: 'builds', run_in_background: true }
    const text = (content: string) => [{ type: 'text' as const, text: content }]
    expect(tool.presentCall!(args)).toEqual({
      card: 'generic',
      title: 'make',
      kind: 'execute',
      rawInput: 'make',
      content: text('builds')
    })
    expect(tool.presentResult!(args, { content: text('started background job bash-1'), isError: false })).toEqual({
      card: 'generic',
      content: text('```console\nstarted background job bash-1\n```')
    })
    expect(tool.presentCall!({ ...args, run_in_background: false })).toMatchObject({ card: 'terminal' })
  })
})

describe('job_output', () => {
  it('C18 the end of a wait is a success', async () => {
    const { output, start, call } = open()
    const id = await start(`sleep ${uniqueSleep()}`)
    expect((await output(id, { wait: true, timeout_ms: 50 })).text).toBe('(no new output)\n[status: running]')
    await expect(output(id, { wait: true, timeout_ms: 0 })).rejects.toMatchObject({ code: 'INVALID_WAIT' })
    expect((await output(id, { timeout_ms: -5 })).value.job.status).toBe('running')
    expect((await call('job_list', {})).value).toMatchObject([{ id, status: 'running' }])
  })

  it('C18 waits no longer than the cap', async () => {
    const { jobs, agent } = open()
    const { id } = jobs.start({
      kind: 'x',
      label: 'x',
      owner: agent,
      run: () => ({ done: new Promise(() => undefined), cancel: fail })
    })
    const [tool] = jobTools(jobs, { waitTimeoutMs: 20, maxWaitTimeoutMs: 20 })
    const args = { job_id: id, wait: true, timeout_ms: 1e12 }
    expect(await tool!.execute(args, runContext({ agent }))).toMatchObject({ job: { status: 'running' } })
    expect(() => jobTools(jobs, { waitTimeoutMs: 21, maxWaitTimeoutMs: 20 })).toThrow(/maxWaitTimeoutMs/)
  })

  it('an aborted wait is ABORTED, and takes nothing', async () => {
    const { output, start } = open()
    const id = await start(`echo hi; sleep ${uniqueSleep()}`)
    const controller = new AbortController()
    const wait = output(id, { wait: true }, { signal: controller.signal })
    controller.abort()
    await expect(wait).rejects.toMatchObject({ name: 'AbortError', code: 'ABORTED' })
    await until(async () => (await output(id)).text.startsWith('hi'))
  })

  it('refuses an empty id, an unknown one and a foreign one', async () => {
    const { call, output, start } = open()
    const id = await start(`sleep ${uniqueSleep()}`)
    for (const name of ['job_output', 'job_kill']) {
      await expect(call(name, { job_id: '' })).rejects.toThrow(/empty/)
      await expect(call(name, { job_id: 'bash-99' })).rejects.toMatchObject({ code: 'UNKNOWN_JOB' })
      await expect(call(name, { job_id: id }, { agent: agentOf('B') })).rejects.toMatchObject({ code: 'FOREIGN_JOB' })
    }
    expect((await output(id, {}, { agent: agentOf('A') })).value.job.status).toBe('running')
  })

  it('a flood is bounded in memory, says what was dropped, and its file has all of it', async () => {
    const { output, start } = open({ maxOutputBytes: 1_000, maxSpillBytes: 10_000_000 })
    const id = await start('seq 1 100000; seq 1 100000 >&2')
    const { text } = await output(id, { wait: true })
    expect(text.length).toBeLessThan(3_000)
    const paths = /\n\[some output was dropped from memory; full output: (\S+), (\S+)\]\n\[status/.exec(text)
    for (const path of paths!.slice(1)) expect(readFileSync(path, 'utf8')).toMatch(/^1\n2\n[^]*\n100000\n$/)
    expect((await output(id)).text).toMatch(/^\(no new output\)\n/)
  })

  it('F33 an endless flood fills neither memory nor disk', async () => {
    const { call, jobs, output, start } = open({ maxSpillBytes: 1_000_000 })
    const before = process.memoryUsage().rss
    const id = await start('yes')
    await until(
      async () => (await jobs.readWindow(id, { stream: 'stdout', after: 0, maxBytes: 1 })).from > 50_000_000,
      60_000
    )
    const { text } = await output(id)
    expect(text.length).toBeLessThan(70_000)
    expect(text).toContain('\n[some output was dropped from memory; full output: (unavailable)]\n')
    expect(process.memoryUsage().rss - before).toBeLessThan(100 * 1024 * 1024)
    await call('job_kill', { job_id: id })
    expect(lastLine((await output(id, { wait: true })).text)).toBe('[status: killed, signal: SIGTERM]')
  })

  it('F29 breaks no character between two reads', async () => {
    const { call, output, start } = open()
    const id = await start("printf 'a\\xe4\\xbd'; until [ -e go ]; do sleep .02; done; printf '\\xa0'")
    await until(async () => (await output(id)).value.text === 'a')
    await call('bash', { command: 'touch go' })
    expect((await output(id, { wait: true })).value.text).toBe('你')
  })
})

describe('job_kill', () => {
  it('C19 asks, and later says that it is over', async () => {
    const { call, completed, output, start } = open()
    const sleep = uniqueSleep()
    const id = await start(`echo hi; sleep ${sleep}; true`)
    await until(() => processesWith(`sleep ${sleep}`).length > 0)
    const kill = await call('job_kill', { job_id: id, reason: 'r' })
    expect(kill.value).toMatchObject({ outcome: 'cancellation-requested', job: { id, status: 'stopping' } })
    expect(kill.text).toContain(id)
    expect((await output(id, { wait: true })).text).toBe('hi\n[status: killed, signal: SIGTERM]')
    expect(processesWith(sleep)).toEqual([])
    const again = await call('job_kill', { job_id: id })
    expect(again.value.outcome).toBe('already-finished')
    expect(again.text).toContain('[status: killed, signal: SIGTERM]')
    expect(completed).toEqual([])
  })

  it('a command that heeds no SIGTERM holds its place until it is gone, with all that it started', async () => {
    const { call, output, start } = open()
    const [daemon, child] = [uniqueSleep(), uniqueSleep()]
    const id = await start(`trap '' TERM; setsid sleep ${daemon} & sleep ${child} & wait; wait`)
    await until(() => processesWith(daemon).length > 0 && processesWith(child).length > 0)
    await call('job_kill', { job_id: id })
    const { value } = await output(id, { wait: true })
    expect(value.job.status).toBe('killed')
    expect([...processesWith(daemon), ...processesWith(child)]).toEqual([])
  })

  it('a command that ends well after all was killed all the same', async () => {
    const { call, output, start, cwd } = open()
    const id = await start("trap 'exit 0' TERM; touch ready; while :; do sleep .02; done")
    await until(() => existsSync(join(cwd, 'ready')))
    await call('job_kill', { job_id: id })
    expect(lastLine((await output(id, { wait: true })).text)).toBe('[status: killed, exit code: 0]')
  })
})

describe('job_list', () => {
  it('C22 lists in order of the start, finished ones included', async () => {
    const { call, output, start } = open()
    expect(await call('job_list', {})).toEqual({ value: [], text: '(no background jobs)' })
    const sleep = `sleep ${uniqueSleep()}`
    await start(sleep)
    await start('echo a\n  echo b')
    await output('bash-2', { wait: true })
    const { text } = await call('job_list', {})
    expect(text).toBe(`bash-1 [bash] running — ${sleep}\nbash-2 [bash] completed — echo a echo b`)
    expect((await call('job_list', {}, { agent: agentOf('B') })).text).toBe('(no background jobs)')
  })
})

describe('disposal', () => {
  it('leaves no process, a daemon of a finished job included', async () => {
    const { jobs, agent, output, start } = open()
    const [daemon, running] = [uniqueSleep(), uniqueSleep()]
    const id = await start(`setsid sleep ${daemon} & echo started`)
    expect((await output(id, { wait: true })).text).toContain('started\n[status: completed')
    await start(`sleep ${running}; true`)
    await until(() => processesWith(daemon).length > 0 && processesWith(running).length > 0)
    await jobs.disposeOwners((owner) => owner === agent)
    expect([...processesWith(daemon), ...processesWith(running)]).toEqual([])
    expect(jobs.list(agent)).toEqual([])
  })
})

describe('the producer’s byte limit', () => {
  const result = (content: unknown[]): ToolResult => ({ isError: false, value: null, content }) as never
  const block = (text: string) => ({ type: 'text', text })

  it('holds for whatever a result came from, and keeps its tail and status', () => {
    const { agent, jobs, tools } = open()
    const work: JobWork = { done: new Promise(() => undefined), cancel: fail }
    const { id } = jobs.start({ kind: 'x', label: 'x', owner: agent, outputLimitBytes: 64, run: () => work })
    const finalize = (args: unknown, content: unknown[], caller = agent): any =>
      tools.get('job_output')!.finalizeContent!(
        runContext({ agent: caller, arguments: args as never }),
        result(content)
      )
    const long = `${'x'.repeat(500)}tail\n[status: running]`
    const [{ text }] = finalize({ job_id: id }, [block(long)])
    expect(text).toMatch(/^\[output truncated\]\nx+tail\n\[status: running\]$/)
    expect(Buffer.byteLength(text)).toBe(64)
    // A denial, and arguments that are no good otherwise.
    expect(finalize({ job_id: id, wait: 'yes' }, [block('no'.repeat(99))])[0].text).toHaveLength(64)
    expect(finalize({ job_id: id }, [block('short')])).toBeUndefined()
    expect(finalize({ job_id: id }, [block(long), block('more')])).toBeUndefined()
    expect(finalize({ job_id: id }, [block(long)], agentOf('B'))).toBeUndefined()
    for (const args of [undefined, null, [], 'x', { job_id: 1 }, {}, { job_id: '__proto__' }]) {
      expect(finalize(args, [block(long)])).toBeUndefined()
    }
  })

  it.each([1, 10, 40, 64, 300])('%d bytes are kept to, and no character is broken', (limit) => {
    const capped = capText(`${'你'.repeat(300)}\n[status: completed, exit code: 0]`, limit)!
    expect(Buffer.byteLength(capped)).toBeLessThanOrEqual(limit)
    expect(capped).not.toContain('\ufffd')
    if (limit >= 40) expect(lastLine(capped)).toBe('[status: completed, exit code: 0]')
  })
})

function fail(): never {
  throw new Error('nobody ends this')
}
