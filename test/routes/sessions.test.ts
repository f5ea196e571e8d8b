import { mkdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { type Answer, startApp, type TestApp } from '../helpers/app.ts'
import { temporaryDirectory } from '../helpers/temporary-directory.ts'
import { until } from '../helpers/until.ts'

async function put(app: TestApp, id: string, json: unknown, token = app.served.admin): Promise<Answer> {
  const response = await app.served.call(`/sessions/${id}`, { method: 'PUT', json, token })
  return { status: response.status, headers: response.headers, body: await response.json() }
}

const remove = (app: TestApp, id: string, token = app.served.admin): Promise<Response> =>
  app.served.call(`/sessions/${id}`, { method: 'DELETE', token })

describe('sessions (api.md §4)', () => {
  it('is made before its first use and stays as it is', async () => {
    const app = await startApp()
    const cwd = temporaryDirectory()
    app.app.tools.child('a')
    const made = await put(app, 's1', { scope: 'a', cwd: `${cwd}/.` })
    expect(made.status).toBe(201)
    expect(made.body).toEqual({ id: 's1', scope: 'a', createdAt: expect.any(Number), cwd, turn: 0, isTurnOpen: false })
    expect((await app.get('/sessions/s1')).body).toEqual(made.body)
    expect(await put(app, 's1', { scope: 'a', cwd })).toMatchObject({ status: 200, body: made.body })
    expect((await put(app, 's1', { scope: 'a' })).status).toBe(200)
    const moved = await put(app, 's1', { scope: 'a', cwd: '/' })
    expect([moved.status, moved.body.error.code]).toEqual([409, 'SESSION_FIXED'])
    expect((await put(app, 's1', {})).body.error.code).toBe('UNKNOWN_SESSION')
    await app.invoke({ name: 'echo', session: 's1', scope: 'a' })
    expect((await app.get('/sessions/s1')).body).toMatchObject({ cwd, turn: 1, isTurnOpen: true })
    expect((await put(app, 'no%2Fslash', {})).status).toBe(400)
  })

  it('ids are as long as they may be: the default session of a scope with the longest id can be named (api.md §2)', async () => {
    const app = await startApp()
    const scope = 's'.repeat(128)
    app.app.tools.child(scope)
    const { session, callId } = await app.invoke({ name: 'echo', scope })
    expect(session).toBe(`${scope}:default`)
    expect((await app.invoke({ name: 'echo', scope, session })).session).toBe(session)
    for (const path of [`/sessions/${session}`, `/sessions/${session}/events`, `/calls/${session}/${callId}`]) {
      expect((await app.get(path)).status, path).toBe(200)
    }
    expect((await app.get(`/sessions?after=${session}`)).body).toEqual({ sessions: [] })
    for (const id of ['s'.repeat(129), `${scope}x:default`]) {
      expect((await app.get(`/sessions/${id}`)).body.error.code).toBe('BAD_REQUEST')
    }
  })

  it('only an admin puts a session outside the roots, and nobody learns what is there', async () => {
    const root = temporaryDirectory()
    const outside = temporaryDirectory()
    mkdirSync(join(root, 'inside'))
    mkdirSync(`${root}-beside`)
    symlinkSync(outside, join(root, 'way-out'))
    const app = await startApp({ 'workspace.roots': JSON.stringify([root]) })
    const agent = await app.served.tokenFor('agent')
    expect((await put(app, 'in', { cwd: join(root, 'inside') }, agent)).status).toBe(201)
    expect((await put(app, 'root', { cwd: root }, agent)).status).toBe(201)
    const hidden = [
      outside,
      join(outside, 'nothing'),
      join(root, 'way-out'),
      `${root}-beside`,
      join(root, '..'),
      'inside'
    ]
    const answers = await Promise.all(hidden.map((cwd, index) => put(app, `out${index}`, { cwd }, agent)))
    expect(new Set(answers.map(({ status, body }) => `${status} ${body.error.code} ${body.error.message}`)).size).toBe(
      1
    )
    expect(answers[0]?.status).toBe(403)
    expect((await put(app, 'admin', { cwd: outside })).status).toBe(201)
    expect((await put(app, 'missing', { cwd: join(outside, 'nothing') })).status).toBe(400)
    const observer = await app.served.tokenFor('observer')
    expect((await put(app, 'observed', {}, observer)).status).toBe(403)
  })

  it('lists the stored sessions of a scope and below it, page by page', async () => {
    const app = await startApp()
    const inner = app.app.tools.child('a').child('b')
    expect(inner.id).toBe('b')
    for (const [id, scope] of [
      ['s3', 'global'],
      ['s1', 'a'],
      ['s2', 'b'],
      ['s4', 'b']
    ]) {
      await put(app, id as string, { scope })
    }
    const ids = async (query: string): Promise<unknown> => {
      const { body } = await app.get(`/sessions?${query}`)
      return [body.sessions.map(({ id }: { id: string }) => id), body.next]
    }
    expect(await ids('')).toEqual([['s1', 's2', 's3', 's4'], undefined])
    expect(await ids('scope=a')).toEqual([['s1', 's2', 's4'], undefined])
    expect(await ids('limit=2')).toEqual([['s1', 's2'], 's2'])
    expect(await ids('limit=2&after=s2')).toEqual([['s3', 's4'], undefined])
    const token = await app.served.tokenFor('agent', 'b')
    const own = await app.served.call('/sessions', { token })
    expect(((await own.json()) as any).sessions).toHaveLength(2)
    expect((await app.served.call('/sessions?scope=a', { token })).status).toBe(404)
  })

  it('deletes a session with its events, ending its calls; the id is free again', async () => {
    const app = await startApp()
    await app.invoke({ name: 'count', callId: 'c1' })
    const call = app.post('/invoke', { name: 'coop', callId: 'c2' })
    await until(() => app.trace.includes('body:c2'))
    const agent = await app.served.tokenFor('agent')
    expect((await remove(app, 'default', agent)).status).toBe(403)
    expect((await remove(app, 'default')).status).toBe(204)
    expect((await call).body.error.info.code).toBe('ABORTED')
    expect((await app.get('/sessions/default')).status).toBe(404)
    expect((await remove(app, 'default')).status).toBe(404)
    expect(await app.invoke({ name: 'count', callId: 'c1' })).toMatchObject({ value: '2', callSeq: 1 })
    expect(await app.log()).toEqual(['turn/start 1', 'tool/call c1', 'tool/result c1'])
  })
})
