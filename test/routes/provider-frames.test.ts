import { mkdtemp, readFile, rm } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { FastifyInstance } from 'fastify'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { buildApp } from '../../server/app.ts'
import type { Role } from '../../server/auth/principal.ts'
import { loadConfig } from '../../server/config/load.ts'
import type { CallAnswer } from '../../server/invocations/answer.ts'
import { bareTool } from '../helpers/bare-tool.ts'
import { HomeApp } from '../helpers/home-app.ts'
import { listed, TestProvider } from '../helpers/provider-client.ts'
import { EventClient, type ServedApp } from '../helpers/served-app.ts'
import { until } from '../helpers/until.ts'

/** One server for all cases: each has a scope of its own. */
let app: FastifyInstance
let home: string
let place: { port: number; admin: string }
let scopes = 0

beforeAll(async () => {
  home = await mkdtemp(join(tmpdir(), 'toolwright-test-'))
  const settings = {
    home,
    'log.level': 'silent',
    'codeRuntime.backend': 'worker-thread',
    'codeRuntime.spareWorlds': '0',
    'calls.maxConcurrentPerScope': '200',
    'providers.graceMs': '60000',
    'providers.maxTools': '20'
  }
  app = await buildApp(loadConfig({ flags: new Map(Object.entries(settings)) }).config)
  await app.listen({ host: '127.0.0.1', port: 0 })
  const admin = (await readFile(join(home, 'admin-token'), 'utf8')).trim()
  place = { port: (app.server.address() as AddressInfo).port, admin }
})

afterAll(async () => {
  await app.close()
  await rm(home, { recursive: true, force: true })
})

async function ask(method: string, path: string, json?: unknown, token = place.admin) {
  const response = await fetch(`http://127.0.0.1:${place.port}${path}`, {
    method,
    headers: {
      authorization: `Bearer ${token}`,
      ...(json === undefined ? {} : { 'content-type': 'application/json' })
    },
    ...(json === undefined ? {} : { body: JSON.stringify(json) })
  })
  const text = await response.text()
  return { status: response.status, body: text === '' ? null : (JSON.parse(text) as any) }
}

async function newScope(body: Record<string, unknown> = {}): Promise<string> {
  scopes += 1
  const scope = `s${scopes}`
  await ask('PUT', `/scopes/${scope}`, body)
  return scope
}

const tokenFor = async (role: Role, scope: string) => (await app.tokens.create({ label: role, role, scope })).token
const idOf = (token: string) => token.split('_')[1] as string

/** A scope with a provider of its own token. */
async function withProvider(tools: readonly (string | Record<string, unknown>)[] = ['tool']) {
  const scope = await newScope()
  const token = await tokenFor('provider', scope)
  const provider = await TestProvider.open(place, { token })
  expect(await provider.provide(tools)).toMatchObject({ type: 'provided' })
  const again = () => TestProvider.open(place, { token })
  return { scope, token, provider, again }
}

async function invoke(scope: string, name: string, more: Record<string, unknown> = {}): Promise<CallAnswer> {
  const { status, body } = await ask('POST', '/invoke', { scope, name, ...more })
  if (status !== 200) throw new Error(`${status}: ${JSON.stringify(body)}`)
  return body as CallAnswer
}

const failureOf = ({ error }: CallAnswer) => `${error?.info?.code} ${error?.effect} ${error?.retryable}`

const toolOf = async (scope: string, name = 'tool') => (await ask('GET', `/tools/${name}?scope=${scope}`)).body

const namesIn = async (scope: string): Promise<string[]> =>
  (await ask('GET', `/tools?scope=${scope}&limit=500`)).body.tools
    .filter((tool: { scope?: string }) => tool.scope === scope)
    .map(({ name }: { name: string }) => name)

describe('provide (api.md §5)', () => {
  it('registers tools in the scope of the token, seen and called as any other there', async () => {
    const scope = await newScope()
    const provider = await TestProvider.open(place, { token: await tokenFor('provider', scope), id: 'weather' })
    const forecast = listed('forecast', {
      parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
      output: { schema: { type: 'object', properties: { celsius: { type: 'number' } }, required: ['celsius'] } },
      idempotent: true
    })
    expect(await provider.provide([forecast])).toEqual({
      type: 'provided',
      id: expect.any(String),
      providerId: 'weather',
      scope,
      tools: ['forecast'],
      pending: [],
      maxFrameBytes: 1024 * 1024
    })
    expect(await toolOf(scope, 'forecast')).toMatchObject({
      scope,
      origin: 'wire',
      executor: { kind: 'client', providerId: 'weather', available: true },
      idempotent: true
    })
    const answer = invoke(scope, 'forecast', { arguments: { city: 'Bern' }, session: `${scope}:a`, callId: 'c1' })
    const frame = await provider.call()
    expect(frame).toEqual({
      type: 'call',
      dispatchId: expect.any(String),
      providerId: 'weather',
      callId: 'c1',
      name: 'forecast',
      arguments: { city: 'Bern' },
      scope,
      session: `${scope}:a`
    })
    provider.answer(frame, { value: { celsius: 21 }, content: [{ type: 'text', text: 'warm' }] })
    expect(await answer).toMatchObject({
      isError: false,
      value: { celsius: 21 },
      content: [{ type: 'text', text: 'warm' }]
    })
    expect(failureOf(await invoke(scope, 'forecast'))).toBe('INVALID_ARGS none false')
    expect(provider.of('call')).toHaveLength(1)
  })

  it('again replaces its own tools: what is not listed goes, what is unchanged stays, what is changed is new', async () => {
    const { scope, provider } = await withProvider(['a', 'b', 'c'])
    const before = app.registry.lookup('b', app.scopes.get(scope))
    const reordered = Object.fromEntries(Object.entries(listed('b')).toReversed())
    expect((await provider.provide([reordered, listed('c', { description: 'new' }), 'd']))['tools']).toEqual([
      'b',
      'c',
      'd'
    ])
    expect((await namesIn(scope)).toSorted()).toEqual(['b', 'c', 'd'])
    expect(app.registry.lookup('b', app.scopes.get(scope))).toBe(before)
    expect(await toolOf(scope, 'c')).toMatchObject({ description: 'new' })
    expect((await provider.provide([]))['tools']).toEqual([])
    expect(await namesIn(scope)).toEqual([])
  })

  it('a name that another holds in that layer is refused by name, and the others are registered', async () => {
    const { scope, provider } = await withProvider(['mine'])
    app.tools.child(scope).register(bareTool('plugins'))
    const other = await TestProvider.open(place, { token: await tokenFor('provider', scope), id: 'q' })
    const provided = await other.provide(['plugins', 'fresh', 'mine', 'read'])
    expect(provided['tools']).toEqual(['fresh', 'read'])
    expect(other.of('error')).toEqual(
      ['plugins', 'mine'].map((name) => ({
        ...{ type: 'error', id: provided['id'], providerId: 'q', name, code: 'DUPLICATE_TOOL' },
        message: expect.any(String)
      }))
    )
    const call = invoke(scope, 'mine')
    provider.answer(await provider.call(), { value: 'mine' })
    expect((await call).value).toBe('mine')
    expect(await toolOf(scope, 'read')).toMatchObject({ executor: { kind: 'client', providerId: 'q' } })
  })

  it('a tool that is not as it must be stops none of the others, and leaves an earlier one of that name', async () => {
    const { scope, provider } = await withProvider(['kept'])
    const bad: [Record<string, unknown>, string][] = [
      [listed('kept', { timeoutMs: -1 }), 'INVALID_DEFINITION'],
      [listed('no good name'), 'INVALID_DEFINITION'],
      [listed('run_code'), 'INVALID_DEFINITION'],
      [listed('more', { executor: { kind: 'command', argv: ['id'] } }), 'INVALID_DEFINITION'],
      [listed('typo', { timeout_ms: 1 }), 'INVALID_DEFINITION'],
      [listed('schema', { parameters: { type: 'object', properties: { a: { type: 'x' } } } }), 'UNSUPPORTED_SCHEMA'],
      [listed('remote', { parameters: { type: 'object', $ref: 'http://localhost/x' } }), 'UNSUPPORTED_SCHEMA'],
      [listed('good'), 'DUPLICATE_TOOL']
    ]
    const provided = await provider.provide(['good', ...bad.map(([tool]) => tool)])
    expect(provided['tools']).toEqual(['good'])
    const refused = provider.of('error').map(({ name, code }) => `${String(name)} ${String(code)}`)
    expect(refused.toSorted()).toEqual(bad.map(([{ name }, code]) => `${String(name)} ${code}`).toSorted())
    expect((await namesIn(scope)).toSorted()).toEqual(['good', 'kept'])
  })

  it('is for providers and admins, in scopes that they reach, under the limits', async () => {
    const scope = await newScope()
    for (const role of ['agent', 'observer', 'operator'] as const) {
      const other = await TestProvider.open(place, { token: await tokenFor(role, scope) })
      expect(await other.provide(['tool'])).toMatchObject({ type: 'error', code: 'FORBIDDEN' })
    }
    const provider = await TestProvider.open(place, { token: await tokenFor('provider', scope) })
    const elsewhere = await newScope()
    for (const outside of ['global', elsewhere, 'nowhere']) {
      expect(await provider.provide(['tool'], outside)).toMatchObject({ type: 'error', code: 'UNKNOWN_SCOPE' })
    }
    const many = Array.from({ length: 21 }, (_, n) => `t${n}`)
    expect(await provider.provide(many)).toMatchObject({
      code: 'RATE_LIMITED',
      details: { limit: 'providers.maxTools', value: 20 }
    })
    expect(await namesIn(scope)).toEqual([])
    const below = await newScope({ parent: scope })
    expect(await provider.provide(['tool'], below)).toMatchObject({ scope: below, tools: ['tool'] })
    expect([await namesIn(scope), await namesIn(below)]).toEqual([[], ['tool']])
  })

  it('two providers have a tool of the same name in scopes of their own, and each gets its calls', async () => {
    const [one, two] = [await withProvider(), await withProvider()]
    const answers = [invoke(one.scope, 'tool'), invoke(two.scope, 'tool')]
    for (const { provider, scope } of [one, two]) provider.answer(await provider.call(), { value: scope })
    expect((await Promise.all(answers)).map(({ value }) => value)).toEqual([one.scope, two.scope])
    expect([one.provider.of('call'), two.provider.of('call')].map(({ length }) => length)).toEqual([1, 1])
  })

  it("another token's socket cannot have an id, and hears nothing of its calls", async () => {
    const { scope, provider } = await withProvider()
    const thief = await TestProvider.open(place, { token: await tokenFor('provider', scope) })
    const refusal = await thief.provide(['tool', 'other'])
    expect(refusal).toMatchObject({ type: 'error', code: 'PROVIDER_TAKEN' })
    const admin = await TestProvider.open(place)
    expect(await admin.provide(['tool'], scope)).toMatchObject({ type: 'error', code: 'PROVIDER_TAKEN' })
    const call = invoke(scope, 'tool')
    const frame = await provider.call()
    thief.answer(frame, { value: 'stolen' })
    expect(await thief.client.next(({ code }) => code === 'UNKNOWN_CALL')).toMatchObject({
      dispatchId: frame.dispatchId
    })
    provider.answer(frame, { value: 'own' })
    expect((await call).value).toBe('own')
    expect(thief.of('call')).toEqual([])
  })

  it('frames that are none of these are answered with BAD_FRAME, pollute nothing, and the socket lives', async () => {
    const { scope, provider } = await withProvider()
    const call = invoke(scope, 'tool')
    const { dispatchId } = await provider.call()
    const bad = [
      { type: 'provide', tools: [] },
      { type: 'provide', providerId: '../x', tools: [] },
      { type: 'provide', providerId: 'p' },
      { type: 'provide', providerId: 'p', tools: [{}] },
      { type: 'provide', providerId: 'p', tools: ['a'] },
      { type: 'provide', providerId: 'p', tools: [], more: 1 },
      '{"type":"provide","providerId":"p","tools":[{"name":"a","__proto__":{}}]}',
      { type: 'call/result', dispatchId },
      { type: 'call/result', value: 1 },
      { type: 'call/result', dispatchId, value: 1, error: { message: 'x' } },
      { type: 'call/result', dispatchId, error: 'x' },
      { type: 'call/result', dispatchId, error: { message: 'x', code: 'lower' } },
      { type: 'call/result', dispatchId, error: { message: 'x', effect: 'none' } },
      { type: 'call/result', dispatchId, value: 1, content: 'x' },
      { type: 'call/result', dispatchId: 'x'.repeat(65), value: 1 },
      { type: 'call/progress', dispatchId },
      { type: 'call/progress', dispatchId, chunk: { a: 1 } },
      { type: 'call', dispatchId }
    ]
    for (const frame of bad) {
      expect([frame, await provider.client.ask(frame)]).toEqual([
        frame,
        expect.objectContaining({ type: 'error', code: 'BAD_FRAME' })
      ])
    }
    // Whose answer was none is told which call still waits.
    const refused = await provider.client.ask({ type: 'call/result', dispatchId, error: 'x' })
    expect(refused).toMatchObject({ code: 'BAD_FRAME', dispatchId })
    for (const unknown of ['__proto__', 'constructor', dispatchId.toUpperCase()]) {
      const refusal = await provider.client.ask({ type: 'call/result', dispatchId: unknown, value: 1 })
      expect(refusal).toMatchObject({ type: 'error', dispatchId: unknown, code: 'UNKNOWN_CALL' })
    }
    provider.client.send(`{"type":"call/result","dispatchId":"${dispatchId}","value":{"__proto__":{"polluted":true}}}`)
    expect(JSON.stringify((await call).value)).toBe('{"__proto__":{"polluted":true}}')
    expect(({} as { polluted?: boolean }).polluted).toBeUndefined()
  })

  it('schemas of tools may have members named as prototypes are', async () => {
    const { scope, provider } = await withProvider()
    provider.client.send(
      `{"type":"provide","id":"x","providerId":"p","tools":[{"name":"odd","description":"","parameters":{"type":"object","properties":{"__proto__":{"type":"integer"}},"required":["__proto__"]}}]}`
    )
    await provider.client.next(({ type, id }) => type === 'provided' && id === 'x')
    expect(failureOf(await invoke(scope, 'odd'))).toBe('INVALID_ARGS none false')
    const call = fetch(`http://127.0.0.1:${place.port}/invoke`, {
      method: 'POST',
      headers: { authorization: `Bearer ${place.admin}`, 'content-type': 'application/json' },
      body: `{"scope":"${scope}","name":"odd","arguments":{"__proto__":7}}`
    })
    const frame = await provider.call()
    expect(JSON.stringify(frame.arguments)).toBe('{"__proto__":7}')
    provider.answer(frame, { value: null })
    expect(((await (await call).json()) as CallAnswer).isError).toBe(false)
  })

  it('a second list of the same provider waits for its turn, or is refused while the first is worked on', async () => {
    const { scope, provider } = await withProvider([])
    const answers = await Promise.all([provider.provide(['a', 'b']), provider.provide(['c'])])
    expect(answers.map(({ type, code }) => code ?? type)).toEqual(['provided', 'RATE_LIMITED'])
    expect(await namesIn(scope)).toEqual(['a', 'b'])
  })
})

describe('an answer', () => {
  it('is what the provider says went wrong, in its words', async () => {
    const { scope, provider } = await withProvider([listed('tool', { idempotent: true })])
    const call = invoke(scope, 'tool')
    provider.answer(await provider.call(), { error: { message: 'the disk is full', code: 'DISK_FULL' } })
    expect(await call).toMatchObject({
      isError: true,
      error: { message: 'the disk is full', info: { code: 'DISK_FULL' }, effect: 'unknown', retryable: true },
      content: [{ type: 'text', text: 'Error: the disk is full' }]
    })
  })

  it('that breaks the contract is INVALID_TOOL_OUTPUT, with the work done', async () => {
    const { scope, provider } = await withProvider([listed('tool', { output: { schema: { type: 'integer' } } })])
    for (const value of ['"x"', '9007199254740993', '-0']) {
      const call = invoke(scope, 'tool', { callId: value })
      const { dispatchId } = await provider.call(value)
      provider.client.send(`{"type":"call/result","dispatchId":"${dispatchId}","value":${value}}`)
      expect([value, failureOf(await call)]).toEqual([value, 'INVALID_TOOL_OUTPUT completed false'])
    }
    const call = invoke(scope, 'tool', { callId: 'content' })
    provider.answer(await provider.call('content'), { value: 1, content: [{ type: 'text' }] })
    expect(failureOf(await call)).toBe('INVALID_TOOL_OUTPUT completed false')
  })

  it('counts once: a second one is told that nobody waits for it', async () => {
    const { scope, provider } = await withProvider()
    const call = invoke(scope, 'tool')
    const frame = await provider.call()
    provider.answer(frame, { value: 1 })
    provider.answer(frame, { value: 2 })
    expect(await provider.client.next(({ type }) => type === 'error')).toMatchObject({
      code: 'UNKNOWN_CALL',
      dispatchId: frame.dispatchId
    })
    expect((await call).value).toBe(1)
  })

  it('of each of 100 parallel calls finds its own, in reverse order', async () => {
    const { scope, provider } = await withProvider()
    const calls = Array.from({ length: 100 }, (_, n) => invoke(scope, 'tool', { arguments: { n } }))
    await until(() => provider.of('call').length === 100)
    for (const frame of provider.of('call').toReversed()) {
      provider.answer(frame as never, { value: (frame['arguments'] as { n: number }).n })
    }
    expect((await Promise.all(calls)).map(({ value }) => value)).toEqual(Array.from({ length: 100 }, (_, n) => n))
  })

  it('of a call that a program makes is what the program gets', async () => {
    const { scope, provider } = await withProvider()
    await ask('PUT', `/scopes/${scope}/presentation`, { mode: 'both' })
    const call = invoke(scope, 'run_code', {
      callId: 'program',
      arguments: { code: 'return (await tools.tool({ n: 20 })) + 1', description: 'Adds one.' }
    })
    const frame = await provider.call()
    expect(frame).toMatchObject({ callId: 'program:code:1', name: 'tool', arguments: { n: 20 }, scope })
    provider.answer(frame, { value: 41 })
    expect(JSON.stringify((await call).content)).toContain('42')
  })
})

describe('while a call runs', () => {
  it('its progress is seen live, until it ends', async () => {
    const { scope, provider } = await withProvider()
    const watcher = await EventClient.open(place as ServedApp)
    await watcher.ask({ type: 'subscribe', id: 'w', scope, events: ['tool/progress'] })
    const call = invoke(scope, 'tool', { callId: 'c' })
    const { dispatchId } = await provider.call()
    for (const chunk of ['one', 'two']) provider.client.send({ type: 'call/progress', dispatchId, chunk })
    await until(() => watcher.events('w').length === 2)
    provider.answer({ dispatchId }, { value: null })
    await call
    provider.client.send({ type: 'call/progress', dispatchId, chunk: 'late' })
    await provider.client.ask({ type: 'call/result', dispatchId, value: 1 })
    const chunks = watcher.frames.flatMap(({ event }) => (event === undefined ? [] : [(event as any).data]))
    expect(chunks).toMatchObject([
      { callId: 'c', name: 'tool', chunk: 'one' },
      { callId: 'c', name: 'tool', chunk: 'two' }
    ])
  })

  it('its abort is a call/cancel, and its late answer counts for nothing', async () => {
    const { scope, provider } = await withProvider()
    const call = invoke(scope, 'tool', { callId: 'c' })
    const { dispatchId } = await provider.call()
    await ask('POST', `/calls/${scope}:default/c/cancel`)
    expect(failureOf(await call)).toBe('ABORTED unknown false')
    expect(await provider.client.next(({ type }) => type === 'call/cancel')).toEqual({
      type: 'call/cancel',
      dispatchId
    })
    expect(await provider.client.ask({ type: 'call/result', dispatchId, value: 1 })).toMatchObject({
      code: 'UNKNOWN_CALL'
    })
  })

  it('its deadline is told with it, and cancels it', async () => {
    const { scope, provider } = await withProvider([listed('tool', { timeoutMs: 200 })])
    const before = Date.now()
    const call = invoke(scope, 'tool')
    const { dispatchId, deadlineAt } = await provider.call()
    expect(deadlineAt).toBeGreaterThanOrEqual(before + 200)
    expect(failureOf(await call)).toBe('TOOL_TIMEOUT unknown false')
    expect(await provider.client.next(({ type }) => type === 'call/cancel')).toEqual({
      type: 'call/cancel',
      dispatchId
    })
  })

  it('arguments that fit in no frame fail it, and nothing else', async () => {
    const { scope, provider } = await withProvider()
    const failed = await invoke(scope, 'tool', { arguments: { text: 'x'.repeat(1024 * 1024) } })
    expect(failureOf(failed)).toBe('INVALID_ARGS none false')
    expect(failed.error?.message).toMatch(/do not fit in a frame of 1048576 bytes/)
    const call = invoke(scope, 'tool')
    provider.answer(await provider.call(), { value: 1 })
    expect((await call).value).toBe(1)
  })
})

describe('a provider whose socket goes', () => {
  it('leaves its tools listed as unavailable; calls then do nothing, and may be made again', async () => {
    const { scope, provider, again } = await withProvider()
    provider.client.socket.terminate()
    await until(async () => !(await toolOf(scope)).executor.available)
    expect(await namesIn(scope)).toEqual(['tool'])
    expect(failureOf(await invoke(scope, 'tool'))).toBe('PROVIDER_UNAVAILABLE none true')
    const next = await again()
    const before = app.registry.lookup('tool', app.scopes.get(scope))
    await next.provide(['tool'])
    expect(app.registry.lookup('tool', app.scopes.get(scope))).toBe(before)
    const call = invoke(scope, 'tool')
    next.answer(await next.call(), { value: 'back' })
    expect((await call).value).toBe('back')
  })

  it('gets its calls again when it is back, under their dispatchId, and is told which are still wanted', async () => {
    const { scope, provider, again } = await withProvider()
    const [kept, cancelled] = [invoke(scope, 'tool', { callId: 'kept' }), invoke(scope, 'tool', { callId: 'gone' })]
    const frame = await provider.call('kept')
    await provider.call('gone')
    provider.client.socket.terminate()
    await until(async () => !(await toolOf(scope)).executor.available)
    await ask('POST', `/calls/${scope}:default/gone/cancel`)
    expect(failureOf(await cancelled)).toBe('ABORTED unknown false')
    const next = await again()
    expect(await next.provide(['tool'])).toMatchObject({ pending: [frame.dispatchId] })
    expect(next.of('call')).toEqual([{ ...frame, redelivered: true }])
    next.answer(frame, { value: 'answered late' })
    expect((await kept).value).toBe('answered late')
  })

  it('any number of times, still answers each call once', async () => {
    const { scope, provider, again } = await withProvider()
    const call = invoke(scope, 'tool', { callId: 'c' })
    const { dispatchId } = await provider.call('c')
    let last = provider
    for (let round = 0; round < 5; round += 1) {
      // Its answer and its end race: either counts, and never both.
      if (round === 4) last.answer({ dispatchId }, { value: 'first' })
      last.client.socket.close()
      last = await again()
      await last.provide(['tool'])
    }
    last.answer({ dispatchId }, { value: 'second' })
    expect((await call).value).toBe('first')
    expect(await last.client.next(({ code }) => code === 'UNKNOWN_CALL')).toMatchObject({ dispatchId })
  })

  it('is replaced by a later one of the same token, which takes its calls over', async () => {
    const { scope, provider, again } = await withProvider()
    const call = invoke(scope, 'tool')
    const frame = await provider.call()
    const next = await again()
    await next.provide(['tool'])
    expect(await provider.client.next(({ type }) => type === 'provider/ended')).toEqual({
      ...{ type: 'provider/ended', providerId: 'p', scope, reason: 'replaced' }
    })
    expect(await next.call()).toEqual({ ...frame, redelivered: true })
    expect(
      await provider.client.ask({ type: 'call/result', dispatchId: frame.dispatchId, value: 'old' })
    ).toMatchObject({ code: 'UNKNOWN_CALL' })
    provider.client.socket.terminate()
    next.answer(frame, { value: 'new' })
    expect((await call).value).toBe('new')
    expect(await toolOf(scope)).toMatchObject({ executor: { available: true } })
  })

  it('S28 for good, as its token was revoked: closed with 4403, its calls fail at once, and the id is free', async () => {
    const { scope, token, provider } = await withProvider()
    const call = invoke(scope, 'tool')
    await provider.call()
    await app.tokens.revoke(idOf(token))
    expect(failureOf(await call)).toBe('PROVIDER_UNAVAILABLE unknown false')
    expect(await provider.client.closed).toBe(4403)
    expect(await toolOf(scope)).toMatchObject({ executor: { providerId: 'p', available: false } })
    const heir = await TestProvider.open(place, { token: await tokenFor('provider', scope) })
    expect(await heir.provide(['tool'])).toMatchObject({ tools: ['tool'], pending: [] })
    const next = invoke(scope, 'tool')
    heir.answer(await heir.call(), { value: 'heir' })
    expect((await next).value).toBe('heir')
  })

  it('and comes back with the new secret of its token, has its calls again', async () => {
    const { scope, token, provider } = await withProvider()
    const call = invoke(scope, 'tool')
    const frame = await provider.call()
    const rotated = await app.tokens.rotate(idOf(token), {})
    expect(await provider.client.closed).toBe(4403)
    const next = await TestProvider.open(place, { token: rotated?.token as string })
    await next.provide(['tool'])
    expect(await next.call()).toEqual({ ...frame, redelivered: true })
    next.answer(frame, { value: 'same' })
    expect((await call).value).toBe('same')
  })
})

describe('a scope that is disposed', () => {
  it('cancels the calls, takes the tools and the provider with it, and leaves nothing to the next of its id', async () => {
    const { scope, provider } = await withProvider()
    const call = invoke(scope, 'tool')
    const { dispatchId } = await provider.call()
    expect((await ask('DELETE', `/scopes/${scope}`)).status).toBe(204)
    expect(failureOf(await call)).toBe('ABORTED unknown false')
    expect(await provider.client.next(({ type }) => type === 'provider/ended')).toMatchObject({ reason: 'disposed' })
    expect(provider.of('call/cancel')).toEqual([{ type: 'call/cancel', dispatchId }])
    expect(await provider.provide(['tool'])).toMatchObject({ code: 'UNKNOWN_SCOPE' })
    await ask('PUT', `/scopes/${scope}`, {})
    expect(await namesIn(scope)).toEqual([])
    expect(await provider.provide(['tool'])).toMatchObject({ tools: ['tool'] })
  })
})

/** A server of its own, which a test may stop and start. */
async function withServer(settings: Record<string, string>) {
  const server = await HomeApp.start({ 'codeRuntime.backend': 'off', ...settings })
  const token = await server.tokenFor('provider', 'global')
  const open = (of = token) => {
    const { port } = server.app.server.address() as AddressInfo
    return TestProvider.open({ port, admin: of }, { token: of })
  }
  const call = async (callId: string): Promise<CallAnswer> =>
    (await server.ask('POST', '/invoke', { name: 'tool', callId })).body
  const isAvailable = async (): Promise<boolean> => (await server.ask('GET', '/tools/tool')).body.executor.available
  return { server, token, open, call, isAvailable }
}

describe('a server that ends', () => {
  it('has the tools listed when it is back, available with their provider, and waits for no call of before', async () => {
    const { server, token, open, call, isAvailable } = await withServer({
      'providers.graceMs': '50',
      'drain.drainMs': '0'
    })
    const provider = await open()
    await provider.provide(['tool'])
    const cut = call('cut')
    const { dispatchId } = await provider.call('cut')
    await server.restart()
    expect(await provider.client.closed).toBe(1001)
    expect(provider.of('call/cancel')).toEqual([{ type: 'call/cancel', dispatchId }])
    expect(failureOf(await cut)).toBe('ABORTED unknown false')

    expect(await isAvailable()).toBe(false)
    expect(failureOf(await call('before'))).toBe('PROVIDER_UNAVAILABLE none true')
    const thief = await open(await server.tokenFor('provider', 'global'))
    expect(await thief.provide(['tool'])).toMatchObject({ code: 'PROVIDER_TAKEN' })
    const next = await open()
    expect(await next.provide(['tool'])).toMatchObject({ tools: ['tool'], pending: [] })
    expect(await next.client.ask({ type: 'call/result', dispatchId, value: 1 })).toMatchObject({ code: 'UNKNOWN_CALL' })
    expect(await isAvailable()).toBe(true)
    const after = call('after')
    next.answer(await next.call('after'), { value: 'back' })
    expect((await after).value).toBe('back')

    // Away for longer than the grace.
    const late = call('late')
    await next.call('late')
    next.client.socket.terminate()
    expect(failureOf(await late)).toBe('PROVIDER_UNAVAILABLE unknown false')
    const last = await open()
    expect(await last.provide(['tool'])).toMatchObject({ pending: [] })
    expect(last.of('call')).toEqual([])

    // Its token is no more: after the next start the id is anybody's who may register there.
    await server.app.tokens.revoke(idOf(token))
    await server.restart()
    const heirs = await server.tokenFor('provider', 'global')
    expect(await (await open(heirs)).provide(['tool'])).toMatchObject({ tools: ['tool'] })
    const [row] = await server.app.eventLog.rows('registrations', { kind: 'tool', scope: 'global', name: 'tool' }, 1)
    expect(JSON.parse(String(row?.['data']))).toMatchObject({ executor: { kind: 'client', owner: idOf(heirs) } })
  })

  it('lets calls come to their answers while it drains, and takes no new list', async () => {
    const { server, open, call } = await withServer({ 'drain.drainMs': '20000' })
    const provider = await open()
    await provider.provide(['tool'])
    const running = call('c')
    const frame = await provider.call('c')
    const closed = server.app.close()
    expect(await provider.provide(['tool', 'more'])).toMatchObject({ code: 'SHUTTING_DOWN' })
    provider.answer(frame, { value: 'in time' })
    expect((await running).value).toBe('in time')
    expect(await provider.client.closed).toBe(1001)
    await closed
  })
})

describe('what a provider leaves behind', () => {
  it('a socket that is gone hears of no token any more, and its providers do not count', async () => {
    const before = vi.spyOn(app.tokens, 'onEnded')
    const scope = await newScope()
    const token = await tokenFor('provider', scope)
    // More than a token may have at a time.
    for (let round = 0; round < 40; round += 1) {
      const provider = await TestProvider.open(place, { token, id: `p${round}` })
      expect(await provider.provide([])).toMatchObject({ type: 'provided' })
      provider.client.socket.terminate()
      await until(() => !app.providers.claim(app.scopes.get(scope)!, `p${round}`, idOf(token)).isAvailable)
    }
    expect(before).toHaveBeenCalledTimes(40)
    before.mockRestore()
  })

  it('one that reads nothing is not sent more than its buffer holds, and those calls have done nothing', async () => {
    const { scope, provider } = await withProvider()
    provider.client.socket.pause()
    const session = `${scope}:a`
    const calls = Array.from({ length: 20 }, (_, n) =>
      invoke(scope, 'tool', { callId: `c${n}`, session, arguments: { text: 'x'.repeat(300_000) } })
    )
    const buffered = (): number => Math.max(...[...app.websocketServer.clients].map((socket) => socket.bufferedAmount))
    await until(() => buffered() > 1024 * 1024)
    await Promise.all(
      calls.map(async (call, n) => {
        await until(async () => (await ask('GET', `/calls/${session}/c${n}`)).body.state === 'running')
        await ask('POST', `/calls/${session}/c${n}/cancel`)
        return call
      })
    )
    expect(buffered()).toBeLessThan(1.5 * 1024 * 1024)
    const effects = (await Promise.all(calls)).map(({ error }) => error?.effect)
    expect(effects.filter((effect) => effect === 'none').length).toBeGreaterThan(0)
    const sent = effects.filter((effect) => effect === 'unknown').length
    provider.client.socket.resume()
    await until(() => provider.of('call/cancel').length === sent)
    expect(provider.of('call')).toHaveLength(sent)
  })
})
