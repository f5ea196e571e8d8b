import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { startApp, type TestApp } from '../helpers/app.ts'
import { bareTool } from '../helpers/bare-tool.ts'
import { HomeApp, outcome } from '../helpers/home-app.ts'
import { EventClient } from '../helpers/served-app.ts'
import { RunningServer } from '../helpers/running-server.ts'
import { temporaryDirectory } from '../helpers/temporary-directory.ts'
import { until } from '../helpers/until.ts'

async function asking(): Promise<TestApp> {
  const app = await startApp()
  app.app.tools.addHook('preExecute', () => ({ kind: 'ask' }))
  return app
}

async function pending(app: TestApp, count = 1): Promise<any[]> {
  const list = async (): Promise<any[]> => (await app.get('/approvals')).body.approvals
  await until(async () => (await list()).length === count)
  return list()
}

describe('S23 what is approved is what was asked about (reliability.md §1.11)', () => {
  it('S23 another schema of the tool: refused as stale, and closed as a denial', async () => {
    const app = await asking()
    const undo = app.app.tools.register(bareTool('swap'))
    const answer = app.invoke({ name: 'swap' })
    const [{ id }] = await pending(app)
    undo()
    let ran = 0
    app.app.tools.register(bareTool('swap', { parameters: { type: 'object' }, execute: () => String((ran += 1)) }))
    const { status, body } = await app.post(`/approvals/${id}`, { decision: 'allow' })
    expect([status, body.error.code]).toEqual([409, 'APPROVAL_STALE'])
    expect(await answer).toMatchObject({ isError: true, error: { effect: 'none' } })
    expect((await app.post(`/approvals/${id}`, { decision: 'allow' })).body.error).toMatchObject({
      code: 'ALREADY_DECIDED',
      details: { outcome: 'rejected' }
    })
    expect(ran).toBe(0)
  })

  it('S23 the same tool registered anew is the same', async () => {
    const app = await asking()
    const undo = app.app.tools.register(bareTool('swap'))
    const answer = app.invoke({ name: 'swap' })
    const [{ id }] = await pending(app)
    undo()
    app.app.tools.register(bareTool('swap'))
    expect((await app.post(`/approvals/${id}`, { decision: 'allow' })).status).toBe(200)
    expect((await answer).value).toBe('swap-ok')
  })

  it('S23 a working directory whose symbolic link moved', async () => {
    const app = await asking()
    const place = temporaryDirectory()
    for (const name of ['a', 'b']) mkdirSync(join(place, name))
    const link = join(place, 'link')
    symlinkSync(join(place, 'a'), link)
    await app.app.sessions.create(app.app.scopes.global, 's1', link)
    const answer = app.invoke({ name: 'echo', session: 's1' })
    const [{ id }] = await pending(app)
    rmSync(link)
    symlinkSync(join(place, 'b'), link)
    expect((await app.post(`/approvals/${id}`, { decision: 'allow' })).body.error.code).toBe('APPROVAL_STALE')
    expect((await answer).isError).toBe(true)
    expect(app.trace).toEqual([])
  })

  it('S23 other permission rules after a restart; with the same ones it goes on', async () => {
    const rule = (reason: string): string =>
      JSON.stringify([{ name: 'people', decision: 'ask', tools: 'swap', reason }])
    const home = temporaryDirectory()
    const ask = async (reason: string): Promise<{ app: HomeApp; approvals: any[] }> => {
      const app = await HomeApp.start({ home, 'permissions.rules': rule(reason) }, ['swap'])
      return { app, approvals: (await app.ask('GET', '/approvals')).body.approvals }
    }
    const first = await ask('one')
    for (const callId of ['c1', 'c2'])
      await first.app.ask('POST', '/invoke', { name: 'swap', callId }, { headers: { prefer: 'respond-async' } })
    await until(async () => (await first.app.ask('GET', '/approvals')).body.approvals.length === 2)
    await first.app.app.close()

    const same = await ask('one')
    const [one, two] = same.approvals
    expect(new Set([one.callId, two.callId])).toEqual(new Set(['c1', 'c2']))
    expect(outcome(await same.app.ask('POST', `/approvals/${one.id}`, { decision: 'allow', hash: one.hash }))).toBe(
      '200'
    )
    const { body } = await same.app.ask('GET', `/calls/default/${one.callId}?waitMs=10000`)
    expect(body.result).toMatchObject({ isError: false, value: 'swap-ok' })
    await same.app.app.close()

    const other = await ask('two')
    expect(other.approvals.map(({ id }) => id)).toEqual([two.id])
    expect(outcome(await other.app.ask('POST', `/approvals/${two.id}`, { decision: 'allow' }))).toBe(
      '409 APPROVAL_STALE'
    )
    const left = await other.app.ask('GET', `/calls/default/${two.callId}?waitMs=10000`)
    expect(left.body.result).toMatchObject({ isError: true, error: { effect: 'none' } })
  })
})

describe('S24 exactly one decision', () => {
  it('S24 50 at once, half of them over sockets, allowing and denying: one wins, one run at most', async () => {
    const app = await asking()
    const clients = await Promise.all(Array.from({ length: 5 }, () => EventClient.open(app.served)))
    for (const [round, winner] of [
      ['c1', 'allow'],
      ['c2', 'deny']
    ] as const) {
      const before = app.counted
      const answer = app.invoke({ name: 'count', callId: round })
      const [{ id }] = await pending(app)
      const other = winner === 'allow' ? 'deny' : 'allow'
      const won: string[] = []
      const lost: any[] = []
      const overHttp = async (decision: string): Promise<void> => {
        const { status, body } = await app.post(`/approvals/${id}`, { decision })
        if (status === 200) won.push(body.outcome)
        else lost.push(body.error)
      }
      const overSocket = async (client: EventClient, index: number, decision: string): Promise<void> => {
        const frameId = `${round}-${index}`
        client.send({ type: 'approval', id: frameId, approvalId: id, decision })
        const frame = (await client.next((candidate) => candidate['id'] === frameId)) as any
        if (frame.type === 'approval/decided') won.push(frame.approval.outcome)
        else lost.push(frame)
      }
      await Promise.all(
        Array.from({ length: 25 }, (_, index) => [
          overHttp(index % 2 === 0 ? winner : other),
          overSocket(clients[index % 5] as EventClient, index, index % 2 === 0 ? other : winner)
        ]).flat()
      )
      expect([won.length, lost.length]).toEqual([1, 49])
      for (const { code, details } of lost) expect([code, details.outcome]).toEqual(['ALREADY_DECIDED', won[0]])
      const { isError } = await answer
      expect([isError, app.counted - before]).toEqual(won[0] === 'allowed-once' ? [false, 1] : [true, 0])
    }
    const decided = (await app.events()).filter(({ type }) => type === 'approval/decided')
    expect(decided).toHaveLength(2)
  })
})

describe('S25 one approval is for one call', () => {
  it('S25 neither again nor for another call, also one with the same arguments', async () => {
    const app = await asking()
    const one = app.invoke({ name: 'count', callId: 'c1' })
    const [{ id, hash }] = await pending(app)
    await app.post(`/approvals/${id}`, { decision: 'allow' })
    await one
    // The same call again is its stored answer, and asks nobody.
    expect((await app.invoke({ name: 'count', callId: 'c1' })).replayed).toBe(true)
    const two = app.invoke({ name: 'count', callId: 'c2' })
    const [other] = await pending(app)
    expect(other.id).not.toBe(id)
    expect(other.hash).not.toBe(hash)
    expect((await app.post(`/approvals/${id}`, { decision: 'allow' })).body.error.code).toBe('ALREADY_DECIDED')
    expect((await app.post(`/approvals/${other.id}`, { decision: 'allow', hash })).body.error.code).toBe(
      'APPROVAL_STALE'
    )
    expect(app.counted).toBe(1)
    await app.post(`/approvals/${other.id}`, { decision: 'deny' })
    await two
  })
})

/** A plugin whose tools write down that they ran, with a stop before the body where there is a file `hold`. */
const plugin = (place: string): string => `
import { appendFileSync, existsSync } from 'node:fs'
const file = (name) => ${JSON.stringify(place)} + '/' + name
export default ({ definePlugin }) =>
  definePlugin({ name: 'asked', needs: ['approvals'] }, (tools, { approvals }) => {
    const tool = (name, execute) =>
      tools.register({ name, description: name, parameters: { type: 'object' }, output: { schema: {}, render: () => [] }, execute })
    tool('asked', (args, { callId }) => (appendFileSync(file('ran'), callId + JSON.stringify(args) + '\\n'), 'ran'))
    tool('asks', (args, exec) =>
      approvals.requestInBody({ agent: exec.agent, toolName: exec.name, callId: exec.callId, signal: exec.signal, exec }))
    tools.addHook('preExecute', (exec, next) => (exec.name === 'asked' ? { kind: 'ask' } : next()))
    tools.addHook('execute', (exec, next) => {
      if (!existsSync(file('hold'))) return next()
      appendFileSync(file('held'), exec.callId)
      return new Promise(() => {})
    })
  })
`

// A start takes its time on a busy machine.
describe('kill -9', { timeout: 200_000 }, () => {
  function place() {
    const home = temporaryDirectory()
    const file = join(home, 'plugin.mjs')
    writeFileSync(file, plugin(home))
    const ran = (): string => (existsSync(join(home, 'ran')) ? readFileSync(join(home, 'ran'), 'utf8') : '')
    return { home, ran, start: () => RunningServer.start(home, { plugins: [file] }) }
  }

  const list = async (server: RunningServer): Promise<any[]> => (await server.request('/approvals')).body.approvals

  /** A call whose approval is pending. */
  async function asked(server: RunningServer, name: string, callId: string): Promise<any> {
    server.request('/invoke', { name, callId, arguments: { n: 1 } }).catch(() => undefined)
    const find = async (): Promise<any> => (await list(server)).find((approval) => approval.callId === callId)
    await until(async () => (await find()) !== undefined)
    return find()
  }

  const result = async (server: RunningServer, callId: string): Promise<any> =>
    (await server.request(`/calls/default/${callId}?waitMs=20000`)).body.result

  it('while it is pending: listed after the restart, answerable, and the call runs once; what a body asked is closed', async () => {
    const { ran, start } = place()
    const first = await start()
    const approval = await asked(first, 'asked', 'c1')
    const inBody = await asked(first, 'asks', 'c2')
    await first.end('SIGKILL')
    const second = await start()
    expect(await list(second)).toEqual([approval])
    expect((await second.request('/calls/default/c1')).body.state).toBe('awaiting-approval')
    expect(await result(second, 'c2')).toMatchObject({ error: { info: { code: 'TOOL_OUTCOME_UNKNOWN' } } })
    const late = await second.request(`/approvals/${inBody.id}`, { decision: 'allow' })
    expect(late.body.error.details.outcome).toBe('cancelled')
    await second.end('SIGKILL')
    const third = await start()
    const edited = { decision: 'allow', arguments: { n: 2 }, hash: approval.hash }
    expect((await third.request(`/approvals/${approval.id}`, edited)).status).toBe(200)
    expect(await result(third, 'c1')).toMatchObject({ isError: false, value: 'ran' })
    const { events } = (await third.request('/sessions/default/events?limit=500')).body
    const isOwn = ({ type, data }: any): boolean =>
      data.id === approval.id || (type === 'tool/result' && data.message.source.callId === 'c1')
    expect(events.filter(isOwn).map(({ type }: any) => type)).toEqual([
      'approval/asked',
      'approval/decided',
      'tool/result'
    ])
    await third.end('SIGKILL')
    const last = await start()
    expect([ran(), await list(last)]).toEqual(['c1{"n":2}\n', []])
  })

  it('S26 between the decision and the dispatch: not run after the restart, TOOL_OUTCOME_UNKNOWN', async () => {
    const { home, ran, start } = place()
    const first = await start()
    const { id } = await asked(first, 'asked', 'c1')
    writeFileSync(join(home, 'hold'), '')
    expect((await first.request(`/approvals/${id}`, { decision: 'allow' })).status).toBe(200)
    await until(() => existsSync(join(home, 'held')))
    await first.end('SIGKILL')
    rmSync(join(home, 'hold'))
    const second = await start()
    expect(await result(second, 'c1')).toMatchObject({
      isError: true,
      error: { info: { code: 'TOOL_OUTCOME_UNKNOWN' }, effect: 'unknown' }
    })
    expect(await list(second)).toEqual([])
    const again = await second.request(`/approvals/${id}`, { decision: 'allow' })
    expect(again.body.error.code).toBe('ALREADY_DECIDED')
    // The same call again is answered, and not run.
    const replay = await second.request('/invoke', { name: 'asked', callId: 'c1', arguments: { n: 1 } })
    expect([replay.body.replayed, ran()]).toEqual([true, ''])
  })
})
