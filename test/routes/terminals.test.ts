import { describe, expect, it } from 'vitest'
import { startApp, type TestApp } from '../helpers/app.ts'
import { processesWith, uniqueSleep } from '../helpers/processes.ts'
import { EventClient } from '../helpers/served-app.ts'
import { sandboxGround } from '../helpers/sandbox.ts'
import { until } from '../helpers/until.ts'

const canConfine = await sandboxGround()
  .open()
  .then(
    () => true,
    () => false
  )
const settings = { 'terminals.idleMs': '600', 'terminals.graceMs': '500' }

/** A call of a terminal tool, which must succeed. */
async function use(app: TestApp, name: string, args: object, place: object = {}): Promise<any> {
  const answer = await app.invoke({ name: `terminal_${name}`, arguments: args, ...place })
  if (answer.isError) throw new Error(JSON.stringify(answer.error))
  return answer.value
}

/** Begins a command that lasts, in a terminal of its own; its id. */
async function hold(app: TestApp, sleep: string, place: object = {}): Promise<string> {
  const { sessionId } = await use(app, 'open', { type: 'shell' }, place)
  const text = `setsid sleep ${sleep} & sleep ${sleep}`
  await use(app, 'send', { sessionId, text, run_in_background: true }, place)
  await until(() => processesWith(`sleep ${sleep}`).length >= 2)
  return sessionId
}

const running = (sleep: string): string[] => processesWith(`sleep ${sleep}`)

describe('terminals over the wire (api.md §7)', () => {
  it('are listed, read, typed into, signalled and closed by operators', async () => {
    const app = await startApp(settings)
    const client = await EventClient.open(app.served)
    client.send({ type: 'subscribe', id: 'a', session: 's1', events: ['terminal/*'] })
    await client.next(({ type }) => type === 'subscribed')
    const { sessionId: id, pid } = await use(app, 'open', { type: 'shell', name: 'main' }, { session: 's1' })
    await use(app, 'open', { type: 'shell' }, { session: 's2' })
    const status = { kind: 'running' }
    const shown = { id, name: 'main', type: 'shell', pid, status, session: 's1', scope: 'global' }
    const first = await app.get('/terminals?limit=1')
    expect(first.body).toEqual({ terminals: [shown], next: 1 })
    expect((await app.get('/terminals?after=1')).body.terminals).toMatchObject([{ id: 'pty-2', session: 's2' }])
    expect((await app.get('/terminals?session=s1')).body.terminals).toEqual([shown])

    // Beyond the end it waits for what comes next (F31).
    const beyond = app.get('/terminals/pty-1/output?after=999999')
    expect((await app.post('/terminals/pty-1/input', { text: 'printf "\\e[1mh""i\\n"\r' })).body).toEqual({})
    const { body: piece } = await beyond
    expect(piece).toMatchObject({ from: 2, truncated: false, status })
    expect(piece.text).not.toBe('')
    let all = ''
    await until(async () => (all = (await app.get('/terminals/pty-1/output?waitMs=0')).body.text).endsWith('\nhi\n$ '))
    const frames = () =>
      client.frames.flatMap(({ event }) => (event?.type === 'terminal/output' ? [event as { data?: any }] : []))
    await until(
      () =>
        frames()
          .map(({ data }) => data.text)
          .join('') === all
    )
    expect(frames()[0]).toMatchObject({ session: 's1', scope: 'global', data: { id, offset: 0 } })
    const rest = await app.get(`/terminals/pty-1/output?after=${Buffer.byteLength(all)}&waitMs=1`)
    expect(rest.body).toMatchObject({ text: '', from: Buffer.byteLength(all), next: Buffer.byteLength(all) })
    expect((await app.get('/terminals/pty-1/output?maxBytes=1')).body).toMatchObject({ text: '$', next: 1 })
    for (const query of ['after=abc', 'after=-1', 'after=1e3', 'after=', 'maxBytes=0', 'waitMs=x']) {
      expect((await app.get(`/terminals/pty-1/output?${query}`)).status, query).toBe(400)
    }

    const sleep = uniqueSleep()
    await app.post('/terminals/pty-1/input', { text: `sleep ${sleep}\r` })
    await until(() => running(sleep).length > 0)
    const { body } = await app.post('/terminals/pty-1/signal', { signal: 'SIGTERM' })
    expect(body.targetPgid).not.toBe(pid)
    await until(() => running(sleep).length === 0)
    await until(async () => (await app.post('/terminals/pty-1/signal', { signal: 'SIGKILL' })).status === 409)
    expect((await app.post('/terminals/pty-1/signal', { signal: 'SIGUSR1' })).status).toBe(400)
    const large = await app.post('/terminals/pty-1/input', { text: 'x'.repeat(1024 * 1024 + 1) })
    expect(large.body.error.code).toBe('TERMINAL_REFUSED')

    await app.post('/terminals/pty-1/input', { text: 'exit 5\r' })
    await until(async () => (await app.get('/terminals')).body.terminals[0].status.exitCode === 5)
    expect((await app.post('/terminals/pty-1/input', { text: 'x' })).body.error.code).toBe('TERMINAL_REFUSED')
    expect((await app.post('/terminals/pty-1/close')).body).toEqual({ outcome: 'closed' })
    expect((await app.post('/terminals/pty-1/close')).body.error.code).toBe('UNKNOWN_TERMINAL')
  })

  it('S27 do not exist for those who do not reach their scope, and not for all to touch', async () => {
    const app = await startApp(settings)
    for (const scope of ['team-a', 'team-b']) await app.served.call(`/scopes/${scope}`, { method: 'PUT', json: {} })
    await use(app, 'open', { type: 'shell' }, { scope: 'team-a', session: 'a' })
    const operator = await app.served.tokenFor('operator', 'team-b')
    const ask = async (path: string, token: string, json?: unknown) => {
      const answer = await app.served.call(path, { token, ...(json === undefined ? {} : { json }) })
      return { status: answer.status, body: ((await answer.json()) as any).error?.code }
    }
    for (const id of ['pty-1', 'pty-99']) {
      const unknown = { status: 404, body: 'UNKNOWN_TERMINAL' }
      expect(await ask(`/terminals/${id}/output?waitMs=0`, operator)).toEqual(unknown)
      expect(await ask(`/terminals/${id}/input`, operator, { text: 'x' })).toEqual(unknown)
      expect(await ask(`/terminals/${id}/signal`, operator, { signal: 'SIGINT' })).toEqual(unknown)
      expect(await ask(`/terminals/${id}/close`, operator, {})).toEqual(unknown)
    }
    const list = await app.served.call('/terminals', { token: operator })
    expect(await list.json()).toEqual({ terminals: [] })
    expect(await ask('/terminals?scope=team-a', operator)).toEqual({ status: 404, body: 'UNKNOWN_SCOPE' })
    const observer = await app.served.tokenFor('observer', 'team-a')
    expect((await ask('/terminals/pty-1/output?waitMs=0', observer)).status).toBe(200)
    expect(await ask('/terminals/pty-1/input', observer, { text: 'x' })).toEqual({ status: 403, body: 'FORBIDDEN' })
    // Another session of the same scope is another agent.
    const foreign = await app.invoke({
      name: 'terminal_close',
      arguments: { sessionId: 'pty-1' },
      scope: 'team-a',
      session: 'other'
    })
    expect(foreign.error?.info?.code).toBe('FOREIGN_SESSION')
  })

  it('end with their scope, their session and the server, which wait for that', async () => {
    const app = await startApp(settings)
    await app.served.call('/scopes/team', { method: 'PUT', json: {} })
    const [ofScope, ofSession, ofServer] = [uniqueSleep(), uniqueSleep(), uniqueSleep()]
    await hold(app, ofScope, { scope: 'team', session: 'a' })
    await hold(app, ofSession, { session: 'b' })
    await hold(app, ofServer, { session: 'c' })
    expect((await app.served.call('/scopes/team', { method: 'DELETE' })).status).toBeLessThan(300)
    expect(running(ofScope)).toEqual([])
    expect((await app.served.call('/sessions/b', { method: 'DELETE' })).status).toBeLessThan(300)
    expect(running(ofSession)).toEqual([])
    expect((await app.get('/terminals')).body.terminals).toMatchObject([{ session: 'c' }])
    expect(running(ofServer)).toHaveLength(2)
    await app.app.close()
    expect(running(ofServer)).toEqual([])
  })

  it('C13 C41 an aborted send is ABORTED, and errors keep to the limit of results', async () => {
    const app = await startApp({ ...settings, 'terminals.maxResultBytes': '64' })
    const { sessionId } = await use(app, 'open', { type: 'shell' })
    const sleep = uniqueSleep()
    const call = app.invoke({ callId: 'c1', name: 'terminal_send', arguments: { sessionId, text: `sleep ${sleep}` } })
    await until(() => running(sleep).length > 0)
    await app.cancel('c1')
    expect((await call).error?.info?.code).toBe('ABORTED')
    await until(() => running(sleep).length === 0)
    const failed = await app.invoke({ name: 'terminal_read', arguments: { sessionId: 'x'.repeat(500) } })
    expect(failed.isError).toBe(true)
    const [block] = failed.content as unknown as [{ text: string }]
    expect(Buffer.byteLength(block.text)).toBeLessThanOrEqual(64)
    expect(failed.error?.info?.code).toBe('NO_SESSION')
  })
})

it.runIf(canConfine)('S29 run in the sandbox that commands run in, whose mode stays while they do', async () => {
  const app = await startApp({ ...settings, 'shell.executor': 'bash-sandbox' })
  const place = { session: 's' }
  const { sessionId } = await use(app, 'open', { type: 'shell' }, place)
  const type = (text: string) => use(app, 'send', { sessionId, text }, place)
  const written = await type('touch /etc/canary; touch here && echo d""one; ps -e | wc -l')
  expect(written.waitReason).toBe('stdin_read')
  expect(written.viewport).toMatch(/Read-only file system\ndone\n[1-9]\n\$ $/)
  const put = async (sandbox: string) => {
    const answer = await app.served.call('/sessions/s/permissions', { method: 'PUT', json: { sandbox } })
    return [answer.status, ((await answer.json()) as any).error?.code]
  }
  expect(await put('workspace-write')).toEqual([200, undefined])
  expect(await put('read-only')).toEqual([409, 'SANDBOX_IN_USE'])
  expect((await type('cat')).waitReason).toBe('stdin_read')
  await use(app, 'send', { sessionId, text: '\u0004', submit: false }, place)
  await expect(use(app, 'signal', { sessionId, signal: 'SIGKILL' }, place)).rejects.toThrow(/shell itself/)
  const sleep = uniqueSleep()
  const send = type(`setsid sleep ${sleep} & sleep ${sleep}`)
  await until(() => running(sleep).length >= 2)
  await use(app, 'signal', { sessionId, signal: 'SIGINT' }, place)
  expect((await send).viewport).toMatch(/\$ $/)
  await use(app, 'close', { sessionId }, place)
  expect(running(sleep)).toEqual([])
  expect(await put('read-only')).toEqual([200, undefined])
})
