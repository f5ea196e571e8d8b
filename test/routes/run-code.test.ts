import { chmodSync, readdirSync } from 'node:fs'
import { basename, join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ask } from '../../server/pipeline/decisions.ts'
import { TestApp } from '../helpers/app.ts'
import { briefDispatch, fixtureTools, Gates } from '../helpers/code-mode-fixture.ts'
import { EventClient, serveApp } from '../helpers/served-app.ts'
import { openDirectory } from '../helpers/code-runtime.ts'
import { until } from '../helpers/until.ts'

/** The whole server with code mode in its scope `agent`, where the fixture tools of the code-mode cases are. */
async function startCodeApp(settings: Record<string, string> = {}): Promise<TestApp & { gates: Gates }> {
  const app = new TestApp(await serveApp({ 'codeRuntime.backend': 'process', ...settings }))
  const gates = new Gates()
  const scope = app.app.tools.child('agent')
  scope.presentAs('code')
  for (const tool of fixtureTools(gates)) scope.register(tool)
  await app.app.codeRuntime
  return Object.assign(app, { gates })
}

const program = (code: string, more: Record<string, unknown> = {}) => ({
  scope: 'agent',
  name: 'run_code',
  arguments: { code, description: 'test run' },
  ...more
})
const session = 'agent:default'

describe('run_code through the wire', () => {
  it.each([
    ['asks a person', `tools.ask_user_question({ questions: [{ id: 'q', question: 'Which?' }] })`],
    ['is asked about', `tools.echo({ value: 'one' })`]
  ])('while a call of its program %s, run_code awaits it and holds no place (api.md §7)', async (_what, call) => {
    const app = await startCodeApp({ 'calls.maxConcurrent': '1' })
    app.app.tools.addHook('preExecute', (exec, next) => (exec.name === 'echo' ? ask() : next()))
    const state = async () => (await app.get(`/calls/${session}/c1`)).body.state
    const answer = app.invoke(program(`return await ${call}`, { callId: 'c1' }))
    let approval: any
    await until(async () => ([approval] = (await app.get('/approvals')).body.approvals).length > 0)
    expect(await state()).toBe('awaiting-approval')
    // There is one place: had the program kept it, this would wait for good.
    expect((await app.invoke(program('return 1', { session: 'other' }))).isError).toBe(false)
    const said = approval.kind === 'question' ? { answers: [{ id: 'q', custom: 'this' }] } : { decision: 'allow' }
    expect((await app.post(`/approvals/${approval.id}`, said)).status).toBe(200)
    expect((await answer).isError).toBe(false)
    expect(await state()).toBe('done')
  })

  it('C040 one run: answer, log and live events agree [core-23.code-dispatch]', async () => {
    const app = await startCodeApp()
    const client = await EventClient.open(app.served)
    await client.ask({ type: 'subscribe', id: 'a', scope: 'agent' })
    const answer = await app.invoke(
      program(
        `console.log('said'); await tools.echo({ value: 'one' }); await tools.chatty({}); return await tools.add({ a: 1, b: 2 })`,
        {
          callId: 'c1'
        }
      )
    )
    expect(answer).toMatchObject({
      isError: false,
      value: { logs: ['said'], result: 3 },
      content: [{ type: 'text', text: 'said\n3' }]
    })
    const events = await app.events(session)
    expect(events.slice(0, -1).map(({ type }) => type)).toEqual([
      'turn/start',
      'tool/call',
      ...Array.from({ length: 3 }, () => ['tool/code-dispatch-start', 'tool/code-dispatch']).flat()
    ])
    expect(events.at(-1)).toMatchObject({ type: 'tool/result', seq: answer.resultSeq })
    expect(events.slice(2, -1).map(briefDispatch)).toEqual([
      'S 1 echo',
      'D 1 echo ok',
      'S 2 chatty',
      'D 2 chatty ok',
      'S 3 add',
      'D 3 add ok'
    ])
    await client.next(({ event }) => event?.type === 'tools/result')
    const live = client.events('a')
    expect(live.filter((type) => type.startsWith('tool/code-dispatch'))).toHaveLength(6)
    const chunks = client.frames
      .map(({ event }) => event as { type: string; data: { callId: string; chunk: string } } | undefined)
      .filter((event) => event?.type === 'tool/progress')
      .map((event) => [event!.data.callId, event!.data.chunk])
    // In the order of the program, whatever way they come.
    expect(chunks).toEqual([
      ['c1', 'said\n'],
      ['c1:code:2', 'half way']
    ])
    expect(live.indexOf('tools/result')).toBeGreaterThan(live.lastIndexOf('tool/code-dispatch'))
  })

  it('C001 C002 the prompt of a scope in code mode; another knows nothing of it', async () => {
    const app = await startCodeApp()
    const { body } = await app.get('/scopes/agent/prompt')
    expect(body.tools.map(({ name }: { name: string }) => name)).toEqual(['run_code'])
    expect(body.sections.map(({ name, order }: { name: string; order: number }) => [name, order])).toEqual([
      ['tools:code-only', 99],
      ['tools:sdk', 150]
    ])
    expect(body.sections[1].text).toContain('  add: {')
    const schemas = await app.get('/scopes/agent/schemas')
    expect(schemas.body.schemas.at(-1).name).toBe('run_code')
    const refused = await app.invoke({ scope: 'agent', name: 'echo', arguments: { value: 'x' } })
    expect(refused.error?.info?.code).toBe('UNKNOWN_TOOL')
    const native = await app.invoke({ name: 'run_code', arguments: { code: '', description: 'x' } })
    expect(native.error?.info?.code).toBe('UNKNOWN_TOOL')
  })

  it('C007 without a runtime the prompt is CODE_RUNTIME_MISSING, and a run an error result', async () => {
    for (const settings of [
      { 'codeRuntime.backend': 'off' },
      { 'codeRuntime.backend': 'python', 'codeRuntime.pythonPath': '/nowhere/python' }
    ]) {
      const app = await startCodeApp(settings)
      const { status, body } = await app.get('/scopes/agent/prompt')
      expect([status, body.error.code]).toEqual([409, 'CODE_RUNTIME_MISSING'])
      const answer = await app.invoke(program('return 1'))
      expect([answer.isError, answer.error?.info]).toEqual([true, undefined])
    }
  })

  it('the Python backend speaks Python from the first prompt on', async () => {
    const app = await startCodeApp({ 'codeRuntime.backend': 'python' })
    const { body } = await app.get('/scopes/agent/prompt')
    expect(body.sections[1].text).toContain('```python')
    const answer = await app.invoke(program("return await tools.add({'a': 1, 'b': 2})"))
    expect(answer.value).toEqual({ logs: [], result: 3 })
  })

  it('a program that comes before the runtime is open waits for it', async () => {
    const app = new TestApp(await serveApp({ 'codeRuntime.backend': 'process' }))
    app.app.tools.child('agent').presentAs('code')
    expect((await app.invoke(program('return 1'))).value).toEqual({ logs: [], result: 1 })
  })

  it('the mode of a scope is chosen by name; code waits for the runtime, native does not, and the default comes back [core-7.10]', async () => {
    const app = new TestApp(await serveApp({ 'codeRuntime.backend': 'process' }))
    app.app.tools.child('agent')
    const path = '/scopes/agent/presentation'
    const put = async (mode?: string) => (await app.served.call(path, { method: 'PUT', json: { mode } })).status
    const direct = async () =>
      (await app.invoke({ scope: 'agent', name: 'echo', arguments: { text: 'x' } })).error?.info?.code
    expect(await put()).toBe(400)
    expect(await put('loud')).toBe(400)
    expect(await put('code')).toBe(200)
    // The first program is there before the runtime is.
    expect((await app.invoke(program('return 1'))).value).toEqual({ logs: [], result: 1 })
    expect(await direct()).toBe('UNKNOWN_TOOL')
    expect(await put('native')).toBe(200)
    expect(await direct()).toBeUndefined()
    expect(await put('code')).toBe(200)
    expect((await app.served.call(path, { method: 'DELETE' })).status).toBeLessThan(300)
    expect(await direct()).toBeUndefined()
  })

  it.each(['process', 'python'])('a program of the %s backend finds nothing of the server’s state', async (backend) => {
    // Where everyone may look, so that it is the hiding that keeps it from programs.
    const home = openDirectory()
    const app = await startCodeApp({ 'codeRuntime.backend': backend, home })
    const files = readdirSync(home).map((file) => join(home, file))
    for (const file of files) chmodSync(file, 0o755)
    expect(files.map((file) => basename(file))).toContain('admin-token')
    const code =
      backend === 'process'
        ? `const fs = await import('node:fs'); const read = (path) => { try { return fs.readFileSync(path, 'latin1').length } catch { return 0 } }
           return [fs.existsSync('/etc/passwd'), ${JSON.stringify(files)}.reduce((sum, path) => sum + read(path), 0)]`
        : `def read(path):
  try:
    return len(open(path, 'rb').read())
  except OSError:
    return 0
return [read('/etc/passwd') > 0, sum(read(path) for path in ${JSON.stringify(files)})]`
    const answer = await app.invoke(program(code))
    const { containment } = (await app.app.codeRuntime)!
    if (containment.pidNamespace) expect(answer.value).toEqual({ logs: [], result: [true, 0] })
    else expect(answer.isError).toBe(false)
  })

  it('calls.maxStoredPayloadBytes bounds what a program says', async () => {
    const app = await startCodeApp({ 'calls.maxStoredPayloadBytes': '2000' })
    const answer = await app.invoke(program("return 'x'.repeat(3000)"))
    expect(answer.error?.message).toMatch(/\(output-limit\).*2000 bytes/)
    expect((await app.invoke(program("return 'x'.repeat(1900)"))).isError).toBe(false)
  })

  it('C058 a cancelled call ends its program and the calls of it', async () => {
    const app = await startCodeApp()
    const answer = app.invoke(program("console.log('in'); await tools.gate_r({ id: 'g' })", { callId: 'c1' }))
    await until(() => app.gates.entered.length === 1)
    await app.cancel('c1', session)
    const { error } = await answer
    expect(error).toMatchObject({ info: { name: 'CodeRunFailedError', code: 'CODE_RUN_FAILED' }, effect: 'unknown' })
    expect(error?.message).toMatch(/\(abort\)[^]*cancelled/)
    expect(app.gates.aborted).toEqual(['g'])
    const events = await app.events(session)
    expect(events.slice(2, -1).map(briefDispatch)).toEqual(['S 1 gate_r', 'D 1 gate_r err'])
  })

  it('contexts and images of calls are the outer call’s; a replay gives the same answer', async () => {
    const app = await startCodeApp()
    const body = program("await tools.tag({ t: '1' }); await tools.pic({}); return 'k'", { callId: 'c1' })
    const first = await app.invoke(body)
    expect(first.additionalContexts?.map(({ source }) => (source as { plugin: string }).plugin)).toEqual([
      'tag',
      'tools-code-mode'
    ])
    const again = await app.invoke(body)
    expect(again).toEqual({ ...first, replayed: true })
  })

  it('the logged copy of a long result is spilled, also of what the program gets whole', async () => {
    const app = await startCodeApp({ 'spill.maxInlineBytes': '500' })
    const answer = await app.invoke(program("return (await tools.echo({ value: 'x'.repeat(5000) })).length"))
    expect(answer.value).toEqual({ logs: [], result: 5005 })
    const settled = (await app.events(session)).find(({ type }) => type === 'tool/code-dispatch')
    expect(settled?.data.content[0].text.length).toBeLessThanOrEqual(500)
    expect(settled?.data.content[0].text).toContain('omitted')
  })

  it('an ask inside a program waits for a person, and the program for the ask', async () => {
    const app = await startCodeApp({ 'codeRuntime.computeMs': '300' })
    app.app.tools.addHook('preExecute', (exec, next) => (exec.name === 'echo' ? ask('sure?') : next()))
    const answer = app.invoke(program("return await tools.echo({ value: 'x' })", { callId: 'c1' }))
    let pending: { approvalId?: string; id?: string; callId: string }[] = []
    await until(async () => (pending = (await app.get('/approvals?state=pending')).body.approvals).length === 1)
    expect(pending[0]).toMatchObject({ callId: 'c1:code:1' })
    const id = pending[0]?.approvalId ?? pending[0]?.id
    expect((await app.post(`/approvals/${id}`, { decision: 'allow' })).status).toBe(200)
    expect((await answer).value).toEqual({ logs: [], result: 'echo:x' })
    const types = (await app.events(session)).map(({ type }) => type)
    expect(types.filter((type) => type.startsWith('approval') || type.includes('dispatch'))).toEqual([
      'tool/code-dispatch-start',
      'approval/asked',
      'approval/decided',
      'tool/code-dispatch'
    ])
  })

  it('§11 over the queue: OVERLOADED, with no effect, so that it may be tried again', async () => {
    const app = await startCodeApp({ 'codeRuntime.maxConcurrentRuns': '1', 'codeRuntime.maxQueuedRuns': '0' })
    const first = app.invoke(program("return await tools.gate_r({ id: 'g' })"))
    await until(() => app.gates.entered.length === 1)
    const second = await app.invoke(program('return 1'))
    expect(second.error).toMatchObject({ info: { code: 'OVERLOADED' }, effect: 'none', retryable: true })
    app.gates.release('g')
    expect((await first).value).toEqual({ logs: [], result: 'g' })
  })
})
