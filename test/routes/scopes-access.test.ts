import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { roles } from '../../server/auth/principal.ts'
import { type HomeAnswer, HomeApp, outcome } from '../helpers/home-app.ts'
import { temporaryDirectory } from '../helpers/temporary-directory.ts'

/** Every operation on a scope or in one that these routes have, with a body that would do. */
const operations: [method: string, path: (scope: string) => string, json?: unknown][] = [
  ['GET', (scope) => `/scopes/${scope}`],
  ['PUT', (scope) => `/scopes/${scope}`, { ttlMs: 60_000 }],
  ['PUT', (scope) => `/scopes/${scope}`, {}],
  ['DELETE', (scope) => `/scopes/${scope}`],
  ['POST', (scope) => `/scopes/${scope}/restrictions`, { deny: ['alpha'] }],
  ['DELETE', (scope) => `/scopes/${scope}/restrictions/0123456789abcdef`],
  ['PUT', (scope) => `/scopes/${scope}/presentation`, { mode: 'native' }],
  ['DELETE', (scope) => `/scopes/${scope}/presentation`],
  ['GET', (scope) => `/scopes/${scope}/schemas?format=openai`],
  ['GET', (scope) => `/scopes/${scope}/prompt`],
  ['GET', (scope) => `/tools?scope=${scope}`],
  ['GET', (scope) => `/tools/alpha?scope=${scope}`],
  ['GET', (scope) => `/tools/nope?scope=${scope}`]
]

const masked = ({ status, text, body }: HomeAnswer): string =>
  `${status} ${text.replace(String(body?.requestId), 'REQUEST')}`

describe('who reaches which scope (api.md §1, reliability.md §1.12)', () => {
  it.each(roles)('S27 for %s of A, the scopes of B answer as ones that do not exist', async (role) => {
    const app = await HomeApp.start({}, ['alpha'])
    await app.ask('PUT', '/scopes/a', {})
    const token = await app.tokenFor(role, 'a')
    const before: string[] = []
    // An id that nobody has is for an author's taking, so for PUT the comparison is with a parent that nobody has.
    const asked = operations.map(([method, path, json]) => ({ method, path: path('b'), json }))
    const ask = ({ method, path, json }: (typeof asked)[number]): Promise<HomeAnswer> =>
      method === 'PUT' && path === '/scopes/b'
        ? app.ask(method, '/scopes/mine', { ...(json as object), parent: 'b' }, { token })
        : app.ask(method, path, json, { token })
    for (const each of asked) before.push(masked(await ask(each)))
    await app.ask('PUT', '/scopes/b', { restrict: [{ deny: ['alpha'] }] })
    await app.ask('PUT', '/scopes/b2', { parent: 'b' })
    const after: string[] = []
    for (const each of asked) after.push(masked(await ask(each)))
    expect(after).toEqual(before)
    for (const [at, answer] of after.entries())
      expect([asked[at], answer]).toEqual([asked[at], expect.stringMatching(/^40[34] /)])
    const list = await app.ask('GET', '/scopes', undefined, { token })
    expect(list.body.scopes.map(({ id }: { id: string }) => id)).toEqual(['a'])
    expect(list.text).not.toContain('global')
    // Nothing of what was tried had an effect.
    expect((await app.ask('GET', '/scopes/b')).body).toMatchObject({
      parent: 'global',
      restrictions: [{ deny: ['alpha'] }]
    })
    expect(outcome(await app.ask('GET', '/scopes/mine'))).toBe('404 UNKNOWN_SCOPE')
  })

  it('an id that is taken out of reach is a scope that does not exist', async () => {
    const app = await HomeApp.start()
    for (const id of ['a', 'b']) await app.ask('PUT', `/scopes/${id}`, {})
    const token = await app.tokenFor('agent', 'a')
    for (const body of [{}, { parent: 'a' }, { parent: 'b' }, { parent: 'global' }]) {
      expect(outcome(await app.ask('PUT', '/scopes/b', body, { token }))).toBe('404 UNKNOWN_SCOPE')
    }
    expect((await app.ask('GET', '/scopes/b')).body.parent).toBe('global')
  })

  it('an agent makes and disposes scopes below its own, and never changes its own', async () => {
    const app = await HomeApp.start({}, ['alpha'])
    await app.ask('PUT', '/scopes/a', { restrict: [{ deny: ['alpha'] }] })
    const token = await app.tokenFor('agent', 'a')
    const ask = (method: string, path: string, json?: unknown): Promise<HomeAnswer> =>
      app.ask(method, path, json, { token })
    const made = await ask('PUT', '/scopes/a.1', {})
    expect([made.status, made.body]).toEqual([201, { id: 'a.1', parent: 'a', mode: 'native' }])
    expect((await ask('PUT', '/scopes/a.1.1', { parent: 'a.1', ttlMs: 60_000 })).status).toBe(201)
    expect((await ask('PUT', '/scopes/a.1', { ttlMs: 60_000 })).body.ttlMs).toBe(60_000)
    expect((await ask('GET', '/scopes/a')).body).toEqual({ id: 'a', mode: 'native' })

    expect(outcome(await ask('PUT', '/scopes/a', {}))).toBe('403 FORBIDDEN')
    expect(outcome(await ask('PUT', '/scopes/a', { parent: 'global' }))).toBe('403 FORBIDDEN')
    expect(outcome(await ask('DELETE', '/scopes/a'))).toBe('403 FORBIDDEN')
    expect(outcome(await ask('POST', '/scopes/a/restrictions', { deny: [] }))).toBe('403 FORBIDDEN')
    expect(outcome(await ask('PUT', '/scopes/a.1/presentation', { mode: 'native' }))).toBe('403 FORBIDDEN')
    expect(outcome(await ask('PUT', '/scopes/a.2', { presentAs: 'native' }))).toBe('403 FORBIDDEN')
    expect(outcome(await ask('PUT', '/scopes/a.2', { restrict: [{ allow: [] }] }))).toBe('403 FORBIDDEN')
    // Replacing would lift what an admin has put there.
    await app.ask('POST', '/scopes/a.1/restrictions', { allow: [] })
    expect(outcome(await ask('PUT', '/scopes/a.1', {}))).toBe('403 FORBIDDEN')
    expect(await app.names('a.1')).toEqual([])

    expect((await ask('DELETE', '/scopes/a.1')).status).toBe(204)
    expect(outcome(await ask('GET', '/scopes/a.1.1'))).toBe('404 UNKNOWN_SCOPE')
    for (const role of ['observer', 'operator', 'provider'] as const) {
      const other = await app.tokenFor(role, 'a')
      expect(outcome(await app.ask('PUT', '/scopes/a.3', {}, { token: other }))).toBe('403 FORBIDDEN')
      expect(outcome(await app.ask('DELETE', '/scopes/a', undefined, { token: other }))).toBe('403 FORBIDDEN')
    }
  })

  it('an admin of a scope configures that scope and those below, and no other', async () => {
    const app = await HomeApp.start({}, ['alpha'])
    for (const id of ['a', 'b']) await app.ask('PUT', `/scopes/${id}`, {})
    const token = await app.tokenFor('admin', 'a')
    expect((await app.ask('PUT', '/scopes/a', { restrict: [{ deny: ['alpha'] }] }, { token })).body).toEqual({
      id: 'a',
      mode: 'native',
      restrictions: [{ id: expect.any(String), deny: ['alpha'] }]
    })
    expect((await app.ask('PUT', '/scopes/a.1', { presentAs: 'both' }, { token })).status).toBe(201)
    expect(outcome(await app.ask('PUT', '/scopes/global', {}, { token }))).toBe('404 UNKNOWN_SCOPE')
    expect((await app.ask('DELETE', '/scopes/a', undefined, { token })).status).toBe(204)
    expect(outcome(await app.ask('PUT', '/scopes/c', {}, { token }))).toBe('404 UNKNOWN_SCOPE')
  })

  it('the sessions of a disposed scope are not inherited with its id by who could not reach it, nor after a restart', async () => {
    const app = await HomeApp.start({}, ['alpha'])
    for (const id of ['a', 'b']) await app.ask('PUT', `/scopes/${id}`, {})
    const [ofA, ofB] = [await app.tokenFor('agent', 'a'), await app.tokenFor('agent', 'b')]
    await app.ask('PUT', '/scopes/tmp', {}, { token: ofA })
    await app.ask('PUT', '/scopes/unused', {}, { token: ofA })
    expect((await app.ask('POST', '/invoke', { scope: 'tmp', name: 'alpha' }, { token: ofA })).status).toBe(200)
    for (const id of ['tmp', 'unused']) await app.ask('DELETE', `/scopes/${id}`, undefined, { token: ofA })
    const again = async (id: string, token: string): Promise<string> =>
      outcome(await app.ask('PUT', `/scopes/${id}`, {}, { token }))
    expect(await again('tmp', ofB)).toBe('404 UNKNOWN_SCOPE')
    expect(await again('unused', ofB)).toBe('201')
    await app.restart()
    expect(await again('tmp', ofB)).toBe('404 UNKNOWN_SCOPE')
    expect(await again('tmp', ofA)).toBe('201')
    const session = await app.ask('GET', '/sessions/tmp:default', undefined, { token: ofA })
    expect(session.body).toMatchObject({ scope: 'tmp' })
  })

  it('S27 an id that tokens, tickets or sockets reach is not made by who could not reach its scope', async () => {
    const app = await HomeApp.start()
    for (const id of ['a', 'b']) await app.ask('PUT', `/scopes/${id}`, {})
    const [ofA, ofB] = [await app.tokenFor('agent', 'a'), await app.tokenFor('agent', 'b')]
    for (const id of ['with-token', 'with-ticket', 'with-nothing'])
      await app.ask('PUT', `/scopes/${id}`, {}, { token: ofA })
    const ofGone = await app.tokenFor('agent', 'with-token')
    await app.tokenFor('agent', 'yet-to-be')
    await app.ask('POST', '/tickets', { scope: 'with-ticket' }, { token: ofA })
    for (const id of ['with-token', 'with-ticket', 'with-nothing']) {
      await app.ask('DELETE', `/scopes/${id}`, undefined, { token: ofA })
    }
    const make = async (id: string, token?: string): Promise<string> =>
      outcome(await app.ask('PUT', `/scopes/${id}`, {}, token === undefined ? {} : { token }))
    for (const id of ['with-token', 'with-ticket', 'yet-to-be']) {
      expect([id, await make(id, ofB)]).toEqual([id, '404 UNKNOWN_SCOPE'])
    }
    expect(await make('with-nothing', ofB)).toBe('201')
    expect(await make('yet-to-be')).toBe('201')
    await app.restart()
    expect(await make('with-token', ofB)).toBe('404 UNKNOWN_SCOPE')
    await app.app.tokens.revoke(ofGone.split('_')[1] as string)
    expect(await make('with-token', ofB)).toBe('201')
  })

  it('S27 the id of a scope to which the configuration gives something is for an admin of everything to make', async () => {
    const allow = [{ name: 'trusted', decision: 'allow', tools: '*' }]
    const secretFile = join(temporaryDirectory(), 'secret')
    writeFileSync(secretFile, 'the-secret-of-pets\n')
    const pets = { type: 'bearer', origins: ['https://pets.example'], scopes: ['pets'], secretFile }
    const app = await HomeApp.start({
      'permissions.scopes': JSON.stringify({ trusted: allow }),
      'sandbox.scopes': '{"roomy":"danger-full-access"}',
      'limits.scopes': '{"fast":{"concurrency":1000}}',
      'httpTools.credentials': JSON.stringify({ pets })
    })
    await app.ask('PUT', '/scopes/a', {})
    for (const [role, scope] of [
      ['agent', 'a'],
      ['admin', 'a'],
      ['agent', 'global']
    ] as const) {
      const token = await app.tokenFor(role, scope)
      for (const id of ['trusted', 'roomy', 'fast', 'pets']) {
        const made = outcome(await app.ask('PUT', `/scopes/${id}`, {}, { token }))
        expect([role, scope, id, made]).toEqual([role, scope, id, '404 UNKNOWN_SCOPE'])
      }
    }
    for (const id of ['trusted', 'roomy', 'fast', 'pets']) {
      expect(outcome(await app.ask('PUT', `/scopes/${id}`, { parent: 'a' }))).toBe('201')
    }
  })

  it('S27 the default session of a scope is begun there and nowhere else', async () => {
    const app = await HomeApp.start({}, ['alpha'])
    for (const id of ['a', 'b']) await app.ask('PUT', `/scopes/${id}`, {})
    const [ofA, ofB] = [await app.tokenFor('agent', 'a'), await app.tokenFor('agent', 'b')]
    const call = { name: 'alpha' }
    for (const session of ['default', 'b:default', 'nowhere:default']) {
      for (const [method, path, json] of [
        ['POST', '/invoke', { ...call, session }],
        ['POST', '/invoke?dryRun=true', { ...call, session }],
        ['POST', '/invoke/batch', { calls: [call], session }],
        ['PUT', `/sessions/${session}`, {}],
        ['POST', `/sessions/${session}/turns`, {}]
      ] as const) {
        const answer = await app.ask(method, path, json, { token: ofA })
        expect([path, session, outcome(answer)]).toEqual([path, session, '404 UNKNOWN_SESSION'])
      }
    }
    expect(outcome(await app.ask('POST', '/invoke', call, { token: ofB }))).toBe('200')
    expect(outcome(await app.ask('POST', '/invoke', call))).toBe('200')
    expect(outcome(await app.ask('POST', '/invoke', { ...call, session: 'a:default' }, { token: ofA }))).toBe('200')
  })

  it('C037 a tool of one scope is, for every other, a tool that does not exist', async () => {
    const app = await HomeApp.start({}, ['alpha'])
    for (const id of ['a', 'b']) await app.ask('PUT', `/scopes/${id}`, {})
    app.app.tools.child('a').register({ ...app.app.registry.lookup('alpha')!, name: 'mine' })
    const call = async (name: string, scope: string): Promise<any> =>
      (await app.ask('POST', '/invoke', { name, scope })).body
    expect((await call('mine', 'a')).value).toBe('alpha-ok')
    for (const scope of ['b', 'global']) {
      const [mine, never] = [await call('mine', scope), await call('never', scope)]
      expect(mine.error.info.code).toBe('UNKNOWN_TOOL')
      expect(JSON.stringify(mine.error)).toBe(JSON.stringify(never.error).replaceAll('never', 'mine'))
      const tool = async (name: string): Promise<string> =>
        masked(await app.ask('GET', `/tools/${name}?scope=${scope}`))
      expect(await tool('mine')).toBe(await tool('never'))
    }
    expect((await app.ask('GET', '/tools/mine?scope=a')).body).toMatchObject({ name: 'mine', scope: 'a' })
  })
})
