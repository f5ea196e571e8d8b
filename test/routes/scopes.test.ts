import { describe, expect, it } from 'vitest'
import { HomeApp, outcome } from '../helpers/home-app.ts'
import { startApp } from '../helpers/app.ts'
import { until } from '../helpers/until.ts'

const own = ['alpha', 'beta', 'gamma']
const start = (settings: Record<string, string> = {}): Promise<HomeApp> => HomeApp.start(settings, own)
const seen = async (app: HomeApp, scope: string): Promise<string[]> =>
  (await app.names(scope)).filter((name) => own.includes(name))

describe('PUT, GET and DELETE /scopes (api.md §3)', () => {
  it('makes a scope, answers it, lists it, and replaces all that the body leaves out', async () => {
    const app = await start()
    const made = await app.ask('PUT', '/scopes/a', {
      restrict: [{ deny: ['alpha'] }],
      presentAs: 'native',
      ttlMs: 60_000
    })
    expect(made.status).toBe(201)
    expect(made.headers.get('location')).toBe('/scopes/a')
    expect(made.body).toEqual({
      id: 'a',
      parent: 'global',
      mode: 'native',
      presentAs: 'native',
      restrictions: [{ id: expect.any(String), deny: ['alpha'] }],
      ttlMs: 60_000
    })
    expect((await app.ask('GET', '/scopes/a')).body).toEqual(made.body)
    expect(await seen(app, 'a')).toEqual(['beta', 'gamma'])

    await app.ask('PUT', '/scopes/a.b', { parent: 'a' })
    const list = await app.ask('GET', '/scopes')
    expect(list.body.scopes.map(({ id, parent }: { id: string; parent: string }) => [id, parent])).toEqual([
      ['a', 'global'],
      ['a.b', 'a'],
      ['global', undefined]
    ])
    const page = await app.ask('GET', '/scopes?limit=1&after=a')
    expect(page.body).toMatchObject({ scopes: [{ id: 'a.b' }], next: 'a.b' })

    const replaced = await app.ask('PUT', '/scopes/a', {})
    expect([replaced.status, replaced.body]).toEqual([
      200,
      { id: 'a', parent: 'global', mode: 'native', restrictions: [] }
    ])
    expect(await seen(app, 'a')).toEqual(own)
  })

  it('a PUT of the same again changes nothing: masks keep their ids', async () => {
    const app = await start()
    const body = { restrict: [{ allow: ['alpha', 'beta'] }, { deny: ['beta'] }] }
    const first = await app.ask('PUT', '/scopes/a', body)
    let changes = 0
    app.app.registry.onChange(() => (changes += 1))
    expect((await app.ask('PUT', '/scopes/a', body)).body).toEqual(first.body)
    expect(changes).toBe(0)
    const narrower = await app.ask('PUT', '/scopes/a', { restrict: [{ deny: ['beta'] }, { deny: ['gamma'] }] })
    expect(narrower.body.restrictions[0]).toEqual(first.body.restrictions[1])
    expect(await seen(app, 'a')).toEqual(['alpha'])
  })

  it('the parent is fixed, and must be there', async () => {
    const app = await start()
    await app.ask('PUT', '/scopes/a', {})
    await app.ask('PUT', '/scopes/b', {})
    expect(outcome(await app.ask('PUT', '/scopes/a', { parent: 'b' }))).toBe('409 SCOPE_PARENT_FIXED')
    expect((await app.ask('PUT', '/scopes/a', { parent: 'global' })).status).toBe(200)
    expect(outcome(await app.ask('PUT', '/scopes/c', { parent: 'nowhere' }))).toBe('404 UNKNOWN_SCOPE')
    expect(outcome(await app.ask('GET', '/scopes/c'))).toBe('404 UNKNOWN_SCOPE')
    expect(outcome(await app.ask('PUT', '/scopes/a', { parent: 'a' }))).toBe('409 SCOPE_PARENT_FIXED')
    expect(outcome(await app.ask('PUT', '/scopes/self', { parent: 'self' }))).toBe('404 UNKNOWN_SCOPE')
  })

  it('C045 global is always there and takes no mask, mode or ttlMs', async () => {
    const app = await start()
    expect((await app.ask('GET', '/scopes/global')).body).toEqual({ id: 'global', mode: 'native', restrictions: [] })
    expect((await app.ask('PUT', '/scopes/global', {})).status).toBe(200)
    expect(outcome(await app.ask('DELETE', '/scopes/global'))).toBe('403 FORBIDDEN')
    for (const body of [{ presentAs: 'code' }, { restrict: [{ deny: ['alpha'] }] }, { ttlMs: 10 }]) {
      expect(outcome(await app.ask('PUT', '/scopes/global', body))).toBe('422 INVALID_DEFINITION')
    }
    expect(outcome(await app.ask('PUT', '/scopes/global', { parent: 'global' }))).toBe('409 SCOPE_PARENT_FIXED')
    expect(outcome(await app.ask('POST', '/scopes/global/restrictions', { deny: ['alpha'] }))).toBe(
      '422 INVALID_DEFINITION'
    )
    expect(outcome(await app.ask('PUT', '/scopes/global/presentation', { mode: 'both' }))).toBe(
      '422 INVALID_DEFINITION'
    )
  })

  it('refuses hostile ids, bodies and masks, and makes nothing of them', async () => {
    const app = await start({ 'scopes.maxDepth': '2', 'scopes.maxRestrictions': '2', 'scopes.max': '4' })
    for (const id of ['-a', '%20', 'a%2Fb', '..%2Fa', 'a%00', '%E2%80%AEa', '__proto__', 'a'.repeat(129)]) {
      expect([id, outcome(await app.ask('PUT', `/scopes/${id}`, {}))]).toEqual([id, '400 BAD_REQUEST'])
    }
    for (const id of ['constructor', 'toString', 'hasOwnProperty']) {
      expect([id, outcome(await app.ask('GET', `/scopes/${id}`))]).toEqual([id, '404 UNKNOWN_SCOPE'])
    }
    const bad: [unknown, string][] = [
      [{ restrict: [{}] }, '422 INVALID_DEFINITION'],
      [{ restrict: [{ allow: ['nope'] }] }, '422 INVALID_DEFINITION'],
      [{ restrict: [{ deny: ['run_code'] }] }, '422 INVALID_DEFINITION'],
      [{ restrict: [{ deny: ['constructor'] }] }, '422 INVALID_DEFINITION'],
      [{ restrict: [{ deny: 'alpha' }] }, '400 BAD_REQUEST'],
      [{ restrict: [{ deny: ['alpha'], id: 'x' }] }, '400 BAD_REQUEST'],
      [{ presentAs: 'sdk' }, '400 BAD_REQUEST'],
      [{ ttlMs: 0 }, '400 BAD_REQUEST'],
      [{ ttlMs: 1.5 }, '400 BAD_REQUEST'],
      [{ parent: null }, '400 BAD_REQUEST'],
      [{ unknown: 1 }, '400 BAD_REQUEST'],
      ['{"__proto__":{}}', '400 BAD_JSON'],
      [{ restrict: [{ allow: [] }, { allow: [] }, { allow: [] }] }, '429 RATE_LIMITED']
    ]
    for (const [body, expected] of bad) {
      expect([body, outcome(await app.ask('PUT', '/scopes/x', body))]).toEqual([body, expected])
    }
    expect(outcome(await app.ask('GET', '/scopes/x'))).toBe('404 UNKNOWN_SCOPE')
    const unknown = await app.ask('PUT', '/scopes/x', { restrict: [{ allow: ['nope', 'alpha'] }] })
    expect(unknown.body.error.message).toContain('"nope"')
    expect(unknown.body.error.message).not.toContain('"alpha"')

    await app.ask('PUT', '/scopes/d1', {})
    await app.ask('PUT', '/scopes/d2', { parent: 'd1' })
    const deep = await app.ask('PUT', '/scopes/d3', { parent: 'd2' })
    expect([outcome(deep), deep.body.error.details]).toEqual([
      '429 RATE_LIMITED',
      { limit: 'scopes.maxDepth', value: 2 }
    ])
    await app.ask('PUT', '/scopes/d4', {})
    expect((await app.ask('PUT', '/scopes/d5', {})).body.error.details).toEqual({ limit: 'scopes.max', value: 4 })
  })

  it('C048 delete takes tools, masks and modes of the whole subtree away, and the ids are free', async () => {
    const app = await start()
    await app.ask('PUT', '/scopes/a', { restrict: [{ deny: ['alpha'] }], presentAs: 'code' })
    await app.ask('PUT', '/scopes/b', { parent: 'a', restrict: [{ deny: ['beta'] }] })
    expect((await app.ask('DELETE', '/scopes/a')).status).toBe(204)
    expect(outcome(await app.ask('GET', '/scopes/b'))).toBe('404 UNKNOWN_SCOPE')
    expect(outcome(await app.ask('DELETE', '/scopes/a'))).toBe('404 UNKNOWN_SCOPE')
    expect((await app.ask('PUT', '/scopes/a', {})).body).toMatchObject({ mode: 'native', restrictions: [] })
    expect(await seen(app, 'a')).toEqual(own)
    expect(await app.app.eventLog.rows('registrations', { scope: 'b' })).toEqual([])
  })

  it('delete aborts the calls of the subtree, answers when they have their results, and nothing new starts there', async () => {
    const app = await startApp()
    const ask = async (method: string, path: string, json?: unknown): Promise<number> =>
      (await app.served.call(path, { method, ...(json === undefined ? {} : { json }) })).status
    await ask('PUT', '/scopes/a', {})
    await ask('PUT', '/scopes/b', { parent: 'a' })
    const coop = app.invoke({ name: 'coop', scope: 'b', callId: 'c1' })
    const gate = app.invoke({ name: 'gate', scope: 'a', callId: 'c2', arguments: { id: 'g' } })
    await app.entered('g')
    await app.state('c1', 'running', 'b:default')
    let isDone = false
    const deleted = ask('DELETE', '/scopes/a').then((status) => ((isDone = true), status))
    expect((await coop).error?.info?.code).toBe('ABORTED')
    expect(await ask('GET', '/scopes/a')).toBe(404)
    expect((await app.post('/invoke', { name: 'echo', scope: 'b' })).status).toBe(404)
    expect(isDone).toBe(false)
    app.release('g')
    expect(await deleted).toBe(204)
    expect((await gate).error?.info?.code).toBe('ABORTED')
  })

  it('concurrent changes of one scope come one after another', async () => {
    const app = await start()
    await app.ask('PUT', '/scopes/a', {})
    const answers = await Promise.all([
      ...Array.from({ length: 10 }, (_, at) => app.ask('POST', '/scopes/a/restrictions', { deny: [own[at % 3]] })),
      app.ask('PUT', '/scopes/n', {}),
      app.ask('PUT', '/scopes/n', {}),
      app.ask('DELETE', '/scopes/n'),
      app.ask('PUT', '/scopes/n', { parent: 'a' })
    ])
    const { restrictions } = (await app.ask('GET', '/scopes/a')).body
    expect(restrictions).toHaveLength(10)
    const mask = answers[0]!.body.id as string
    const taken = await Promise.all([1, 2, 3].map(() => app.ask('DELETE', `/scopes/a/restrictions/${mask}`)))
    expect(taken.map(outcome).toSorted()).toEqual(['204', '404 NOT_FOUND', '404 NOT_FOUND'])
    for (const { status } of answers.slice(10)) expect([200, 201, 204, 404, 409]).toContain(status)
  })
})

describe('restrictions and presentation (api.md §3)', () => {
  it('each mask is lifted by its own id, masks intersect, and own tools stay', async () => {
    const app = await start()
    await app.ask('PUT', '/scopes/a', {})
    app.app.tools.child('a').register({ ...app.app.registry.lookup('alpha')!, name: 'mine' })
    const first = await app.ask('POST', '/scopes/a/restrictions', { allow: ['alpha', 'beta'] })
    const second = await app.ask('POST', '/scopes/a/restrictions', { deny: ['alpha'] })
    expect([first.status, first.body]).toEqual([201, { id: expect.any(String), allow: ['alpha', 'beta'] }])
    expect(first.headers.get('location')).toBe(`/scopes/a/restrictions/${first.body.id}`)
    expect(await app.names('a')).toEqual(['beta', 'mine'])
    await app.ask('PUT', '/scopes/b', { parent: 'a' })
    // To a child they are inherited tools, which the masks above it filter (core.md §7.3).
    expect(await app.names('b')).toEqual(['beta'])
    expect((await app.ask('DELETE', `/scopes/a/restrictions/${first.body.id}`)).status).toBe(204)
    expect((await app.names('a')).includes('gamma')).toBe(true)
    expect((await app.names('a')).includes('alpha')).toBe(false)
    await app.ask('DELETE', `/scopes/a/restrictions/${second.body.id}`)
    expect((await app.names('a')).includes('alpha')).toBe(true)
    expect(outcome(await app.ask('DELETE', '/scopes/a/restrictions/__proto__'))).toBe('404 NOT_FOUND')
    // Its own tools are not what it inherits.
    expect(outcome(await app.ask('POST', '/scopes/a/restrictions', { deny: ['mine'] }))).toBe('422 INVALID_DEFINITION')
    expect((await app.ask('POST', '/scopes/b/restrictions', { deny: ['mine'] })).status).toBe(201)
  })

  it('C045 a child inherits the mode and its own wins; taken back, the default returns', async () => {
    const app = await start()
    await app.ask('PUT', '/scopes/a', {})
    await app.ask('PUT', '/scopes/b', { parent: 'a' })
    const mode = async (scope: string): Promise<string> => (await app.ask('GET', `/scopes/${scope}`)).body.mode
    expect((await app.ask('PUT', '/scopes/a/presentation', { mode: 'code' })).body).toMatchObject({ presentAs: 'code' })
    expect([await mode('a'), await mode('b')]).toEqual(['code', 'code'])
    await app.ask('PUT', '/scopes/b/presentation', { mode: 'native' })
    expect([await mode('a'), await mode('b')]).toEqual(['code', 'native'])
    await app.ask('PUT', '/scopes/a/presentation', { mode: 'both' })
    expect(await mode('a')).toBe('both')
    expect((await app.ask('DELETE', '/scopes/a/presentation')).status).toBe(204)
    expect(outcome(await app.ask('DELETE', '/scopes/a/presentation'))).toBe('404 NOT_FOUND')
    expect(await mode('a')).toBe('native')
    expect(outcome(await app.ask('PUT', '/scopes/a/presentation', { mode: 'x' }))).toBe('400 BAD_REQUEST')
  })

  it('a mode that a plugin declares cannot be declared again', async () => {
    const app = await start()
    app.app.tools.child('team').presentAs('both')
    for (const [path, body] of [
      ['/scopes/team/presentation', { mode: 'code' }],
      ['/scopes/team', { presentAs: 'code' }]
    ] as const) {
      const answer = await app.ask('PUT', path, body)
      expect([outcome(answer), answer.body.error.message]).toEqual([
        '422 INVALID_DEFINITION',
        expect.stringContaining('both')
      ])
    }
  })

  it('a listener that refuses a change leaves everything as it was, in memory and in the store', async () => {
    const app = await start()
    await app.ask('PUT', '/scopes/a', { restrict: [{ deny: ['alpha'] }] })
    const before = await app.ask('GET', '/scopes/a')
    const undo = app.app.registry.onChange(() => {
      throw new Error('not now')
    })
    expect(outcome(await app.ask('POST', '/scopes/a/restrictions', { deny: ['beta'] }))).toBe('500 INTERNAL')
    expect(outcome(await app.ask('PUT', '/scopes/n', { restrict: [{ deny: ['beta'] }] }))).toBe('500 INTERNAL')
    undo()
    expect(outcome(await app.ask('GET', '/scopes/n'))).toBe('404 UNKNOWN_SCOPE')
    expect((await app.ask('GET', '/scopes/a')).body).toEqual(before.body)
    expect(await seen(app, 'a')).toEqual(['beta', 'gamma'])
    await app.restart()
    expect((await app.ask('GET', '/scopes/a')).body).toEqual(before.body)
    expect(outcome(await app.ask('GET', '/scopes/n'))).toBe('404 UNKNOWN_SCOPE')
  })
})

describe('ttlMs', () => {
  it('an unused scope is disposed with all below it; a running call is a use', async () => {
    const app = await startApp()
    const status = async (path: string): Promise<number> => (await app.served.call(path)).status
    await app.served.call('/scopes/t', { method: 'PUT', json: { ttlMs: 150 } })
    await app.served.call('/scopes/below', { method: 'PUT', json: { parent: 't' } })
    await app.served.call('/scopes/kept', { method: 'PUT', json: {} })
    const call = app.invoke({ name: 'gate', scope: 'below', arguments: { id: 'g' }, callId: 'c1' })
    await app.entered('g')
    const begun = performance.now()
    await until(() => performance.now() - begun > 400)
    expect(await status('/scopes/below')).toBe(200)
    app.release('g')
    expect((await call).isError).toBe(false)
    await until(async () => (await status('/scopes/t')) === 404)
    expect([await status('/scopes/below'), await status('/scopes/kept')]).toEqual([404, 200])
    await until(async () => (await app.app.eventLog.rows('registrations', { kind: 'scope', scope: 't' })).length === 0)
  })
})
