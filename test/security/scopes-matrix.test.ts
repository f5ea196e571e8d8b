import { describe, expect, it } from 'vitest'
import type { TSchema } from '@sinclair/typebox'
import { type Role, roles } from '../../server/auth/principal.ts'
import { type HomeAnswer, HomeApp } from '../helpers/home-app.ts'
import { EventClient, type ServedApp } from '../helpers/served-app.ts'
import { until } from '../helpers/until.ts'
import { readFrameTypes } from './fuzz/frames.ts'
import { type Operation, readOperations } from './fuzz/operations.ts'
import { bodies, exceptions, otherwise, type Slot, slots, takes } from './scopes/slots.ts'
import { furnish, ghosts, type Kind, mcpServer, placeOf, type Things } from './scopes/world.ts'

const operations = readOperations()
const frameTypes = [...(await readFrameTypes())]

const settings = {
  'approvals.expiryMs': '0',
  // Calls of both sides run to the end.
  'drain.drainMs': '0',
  'permissions.rules': JSON.stringify([{ name: 'people', decision: 'ask', tools: 'asked' }]),
  'mcp.servers': JSON.stringify({
    [mcpServer]: { transport: 'streamable-http', url: 'http://127.0.0.1:1/', reconnect: { enabled: false } }
  })
}

const slotOf = (id: string, name: string): Slot | undefined => exceptions[`${id} ${name}`] ?? slots[name]

const membersOf = (schema: TSchema | Record<string, any> | undefined): string[] => {
  const options: Record<string, any>[] = schema?.['anyOf'] ?? [schema ?? {}]
  return [...new Set(options.flatMap((option) => Object.keys(option['properties'] ?? {})))]
}

/** Every place of every operation and frame where an id may stand. */
const places: { id: string; name: string }[] = [
  ...operations.flatMap(({ id, parameters, body }) => [
    ...parameters.map((parameter) => ({ id, name: `${parameter.in} ${parameter.name}` })),
    ...membersOf(body).map((member) => ({ id, name: `member ${member}` }))
  ]),
  ...frameTypes.flatMap(([type, { schema }]) =>
    membersOf(schema).map((member) => ({ id: `frame ${type}`, name: `member ${member}` }))
  )
]

it('S27 each parameter and member of each operation and frame is known to be an id, or none', () => {
  expect(places.filter(({ id, name }) => slotOf(id, name) === undefined)).toEqual([])
  const known = new Set(places.map(({ id, name }) => `${id} ${name}`))
  const tables = [exceptions, takes, otherwise].flatMap((table) => Object.keys(table))
  expect(tables.filter((place) => !known.has(place))).toEqual([])
  const ids = new Set(places.map(({ id }) => id))
  expect(Object.keys(bodies).filter((id) => !ids.has(id))).toEqual([])
})

interface Probe {
  method: string
  path: string
  body: unknown
  headers: Record<string, string>
}

/** A request of an operation that would do, with these ids at these places and the sender's own ones elsewhere. */
function probe({ id, method, path, parameters, body }: Operation, own: Things, at: ReadonlyMap<string, string>): Probe {
  const valueOf = (name: string): string | undefined => {
    const slot = slotOf(id, name)
    return at.get(name) ?? (slot === undefined || slot === 'nothing' ? undefined : own[slot])
  }
  const filled = path.replaceAll(/\{(\w+)\}/g, (_match, name: string) => valueOf(`path ${name}`) ?? '1')
  const query = new URLSearchParams(path.endsWith('/output') ? { waitMs: '0' } : {})
  const headers: Record<string, string> = path.endsWith('/mcp') ? { accept: 'application/json, text/event-stream' } : {}
  for (const parameter of parameters) {
    const value = at.get(`${parameter.in} ${parameter.name}`)
    if (value !== undefined && parameter.in === 'query') query.set(parameter.name, value)
    if (value !== undefined && parameter.in === 'header') headers[parameter.name] = value
  }
  const members = Object.fromEntries(
    membersOf(body).flatMap((member) => {
      const value = at.get(`member ${member}`)
      return value === undefined ? [] : [[member, member === 'allow' || member === 'deny' ? [value] : value]]
    })
  )
  return {
    method,
    path: query.size === 0 ? filled : `${filled}?${query.toString()}`,
    body: body === undefined ? undefined : { ...bodies[id], ...members },
    headers
  }
}

/** The places of an operation where ids stand, one by one, and all of its path together. */
function probedPlaces(id: string): string[][] {
  const named = places
    .filter((place) => place.id === id && slotOf(id, place.name) !== 'nothing')
    .map(({ name }) => name)
  const inPath = named.filter((name) => name.startsWith('path '))
  return [...named.map((name) => [name]), ...(inPath.length > 1 ? [inPath] : [])]
}

const idsAt = (id: string, names: readonly string[], things: Things): Map<string, string> =>
  new Map(names.map((name) => [name, things[slotOf(id, name) as Kind]]))

/** All of an answer that a client sees, but for what differs between any two: its request's id, its time, and the id that was asked about. */
function seen({ status, headers, text, body }: HomeAnswer, ids: Iterable<string>): string {
  const differs = new Set(['date', 'x-request-id', 'content-length', 'keep-alive', 'connection'])
  const shown = [...headers].filter(([name]) => !differs.has(name)).map(([name, value]) => `${name}: ${value}`)
  let masked = `${status}\n${shown.join('\n')}\n${text}`
  if (typeof body?.requestId === 'string') masked = masked.replace(body.requestId, 'REQUEST')
  // Of a call that ran, what differs with every call.
  if (typeof body?.callId === 'string') {
    masked = masked
      .replaceAll(body.callId, 'CALL')
      .replaceAll(/"(callSeq|resultSeq|startedAt|durationMs)":[-\d.e]+/g, '"$1":0')
  }
  return nobodys(masked, ids)
}

/** Without the ids; and whether a session is looked up by itself or in a scope, it is not there. */
function nobodys(text: string, ids: Iterable<string>): string {
  let masked = text
  for (const id of ids) masked = masked.replaceAll(id, 'ID')
  return masked.replace(/there is no session (\\"ID\\") in scope \\"bbbb\\"/, 'There is no session $1.')
}

/** What an admin sees of a scope, so that it can be compared whether anything was done to it. */
async function everythingOf(app: HomeApp, things: Things): Promise<unknown> {
  const { scope, session, call, job } = things
  const paths = [
    ...[
      `/scopes/${scope}`,
      `/scopes/${scope}.below`,
      `/scopes/${scope}/prompt`,
      `/tools?scope=${scope}`,
      `/limits?scope=${scope}`
    ],
    ...[`/sessions?scope=${scope}`, `/sessions/${session}/events?limit=500`, '/approvals'],
    ...[`/jobs?scope=${scope}`, `/jobs/${job}/output?waitMs=0`, `/terminals?scope=${scope}`, `/mcp-servers`],
    ...[`/calls/${session}/${call}`, `/calls/${session}/${scope}-asked`, `/calls/${session}/${scope}-provided`]
  ]
  const answers = await Promise.all(paths.map((path) => app.ask('GET', path)))
  const tokens = (await app.ask('GET', '/tokens?limit=500')).body.tokens.filter((token: any) => token.scope === scope)
  return [
    ...answers.map(({ status, body }, at) => [paths[at], status, body]),
    tokens.map(({ lastUsedAt: _lastUsedAt, ...token }: any) => token)
  ]
}

describe('S27 what is out of reach answers as what is not there (reliability.md §1.12)', { timeout: 240_000 }, () => {
  it('S27 by every route, frame, list and stream, for every role', async () => {
    const app = await HomeApp.start(settings, ['alpha', 'beta', 'asked'])
    const theirs = await furnish(app, 'aaaa')
    const own = await furnish(app, 'bbbb')
    const before = await everythingOf(app, theirs)
    const tokens = new Map<Role, string>()
    for (const role of roles) tokens.set(role, await app.tokenFor(role, 'bbbb'))

    const wrong: string[] = []
    for (const [role, token] of tokens) {
      wrong.push(...(await overRoutes(app, { role, token, own, theirs })))
      wrong.push(...(await overFrames(app, { role, token, theirs })))
      wrong.push(...(await overLists(app, { role, token, theirs })))
    }
    expect(wrong).toEqual([])
    expect(await everythingOf(app, theirs)).toEqual(before)
    await overStreams(app, { tokens, own, theirs })
  })
})

interface Side {
  role: Role
  token: string
  own: Things
  theirs: Things
}

/** What differs between the answers for another's id and for nobody's. */
async function overRoutes(app: HomeApp, { role, token, own, theirs }: Side): Promise<string[]> {
  const wrong: string[] = []
  const admin = role === 'admin'
  for (const operation of operations) {
    const { id } = operation
    for (const names of probedPlaces(id)) {
      const ask = async (things: Things): Promise<[HomeAnswer, string]> => {
        const at = idsAt(id, names, things)
        const { method, path, body, headers } = probe(operation, own, at)
        const answer = await app.ask(method, path, body, { token, headers })
        return [answer, seen(answer, at.values())]
      }
      const place = `${id} ${names.join(' and ')}`
      const [{ status }, foreign] = await ask(theirs)
      const taken = takes[place]
      const lookUp = taken === undefined || status === 403 ? undefined : await lookedUp(app, token, taken)
      const [, absent] = lookUp === undefined ? await ask(ghosts) : [undefined, lookUp]
      if (foreign !== absent) wrong.push(`${role}: ${place}: ${foreign} and not ${absent}`)
      // An admin of the scope may do all, so that what was asked was looked for.
      if (admin && status !== (otherwise[place] ?? 404)) wrong.push(`${role}: ${place}: looked at nothing: ${foreign}`)
    }
  }
  return wrong
}

/** What an id that nobody has is answered with where it is looked up; observers may, whoever may make one. */
async function lookedUp(app: HomeApp, token: string, kind: 'scope' | 'session'): Promise<string> {
  return seen(await app.ask('GET', `/${kind}s/${ghosts[kind]}`, undefined, { token }), [ghosts[kind]])
}

const unknownSession = { type: 'error', id: 'a', code: 'UNKNOWN_SESSION', message: 'There is no session "ID".' }

async function overFrames(app: HomeApp, { role, token, theirs }: Omit<Side, 'own'>): Promise<string[]> {
  const client = await EventClient.open(placeOf(app) as ServedApp, token)
  let asked = 0
  const answersTo = async (frame: Record<string, unknown>, ids: Iterable<string>): Promise<string> => {
    const before = client.frames.length
    const end = `end-${(asked += 1)}`
    client.send({ id: 'a', ...frame })
    client.send({ type: 'unsubscribe', id: end })
    await client.next((answer) => answer['id'] === end)
    // Some are answered later than the one that was sent after them; those of providers' calls have no answer of their own.
    const isAnswered = (): boolean => client.frames.slice(before).some((answer) => answer['id'] === 'a')
    if (!String(frame['type']).startsWith('call/')) await until(isAnswered)
    let masked = JSON.stringify(client.frames.slice(before).filter((answer) => answer['id'] !== end))
    masked = masked.replaceAll(/"(callSeq|resultSeq|startedAt|durationMs)":[-\d.e]+|"callId":"[0-9a-f-]{36}"/g, '')
    return nobodys(masked, ids)
  }
  const wrong: string[] = []
  for (const [type] of frameTypes) {
    const id = `frame ${type}`
    for (const names of probedPlaces(id)) {
      const ask = (things: Things): Promise<string> => {
        const at = idsAt(id, names, things)
        const members = [...at].map(([name, value]) => [name.replace('member ', ''), value])
        // The progress of a call has no id of its own.
        const own = type.startsWith('call/') ? { id: undefined } : {}
        return answersTo({ ...own, type, ...bodies[id], ...Object.fromEntries(members) }, at.values())
      }
      const place = `${id} ${names.join(' and ')}`
      const foreign = await ask(theirs)
      const isTaken = takes[place] !== undefined && !foreign.includes('FORBIDDEN')
      const absent = isTaken ? JSON.stringify([unknownSession]) : await ask(ghosts)
      if (foreign !== absent) wrong.push(`${role}: ${place}: ${foreign} and not ${absent}`)
    }
  }
  client.socket.terminate()
  return wrong
}

/** Lists that show anything of another's: those of all operations without an id. */
async function overLists(app: HomeApp, { role, token, theirs }: Omit<Side, 'own'>): Promise<string[]> {
  const wrong: string[] = []
  const lists = operations.filter(({ method, path }) => method === 'GET' && !path.includes('{') && path !== '/events')
  for (const { path } of lists) {
    const headers = { authorization: `Bearer ${token}` }
    const text = await (await fetch(`http://127.0.0.1:${placeOf(app).port}${path}`, { headers })).text()
    const shown = tellsOf(theirs).filter((mark) => text.includes(mark))
    if (shown.length > 0) wrong.push(`${role}: GET ${path} shows ${shown.join()}: ${text}`)
  }
  return wrong
}

/** Texts that nothing but a thing of this scope has. */
const tellsOf = ({ scope, approval, job, terminal, token, mask, mcpSession, dispatch }: Things): string[] => [
  ...[scope, approval, `"${job}"`, `"${terminal}"`, token, mask, mcpSession, dispatch]
]

/** Stirs everything of the other scope, then something of the own one, and looks at what came until that. */
async function overStreams(
  app: HomeApp,
  { tokens, own, theirs }: { tokens: ReadonlyMap<Role, string>; own: Things; theirs: Things }
): Promise<void> {
  const { port } = placeOf(app)
  const texts = new Map<string, () => string>()
  for (const [role, token] of tokens) {
    const client = await EventClient.open(placeOf(app) as ServedApp, token)
    for (const subscription of [
      { after: -1 },
      {},
      { scope: 'bbbb', events: ['*'] },
      { session: own.session, after: -1 }
    ]) {
      client.send({ type: 'subscribe', id: JSON.stringify(subscription), ...subscription })
    }
    texts.set(`${role} socket`, () => JSON.stringify(client.frames))
    const gone = new AbortController()
    const stream = await fetch(`http://127.0.0.1:${port}/events?after=-1`, {
      headers: { authorization: `Bearer ${token}`, accept: 'text/event-stream' },
      signal: gone.signal
    })
    if (stream.status !== 200) {
      // A provider sees no events.
      expect([role, stream.status]).toEqual(['provider', 403])
      texts.delete(`${role} socket`)
      continue
    }
    let text = ''
    void (async () => {
      for await (const chunk of stream.body as unknown as AsyncIterable<Uint8Array>)
        text += Buffer.from(chunk).toString()
    })().catch(() => undefined)
    texts.set(`${role} stream`, () => text)
  }
  await app.ask('POST', '/invoke', { scope: 'aaaa', session: theirs.session, name: 'alpha' })
  await app.ask('POST', `/terminals/${theirs.terminal}/input`, { text: 'echo aaaa\r' })
  await app.ask('POST', `/jobs/${theirs.job}/kill`)
  await app.ask('POST', `/approvals/${theirs.approval}`, { decision: 'allow' })
  await app.ask('DELETE', `/tools/${theirs.tool}?scope=aaaa`)
  await app.ask('DELETE', `/scopes/aaaa`)
  await app.ask('POST', '/invoke', { scope: 'bbbb', session: own.session, name: 'alpha', callId: 'the-last' })
  for (const [who, text] of texts) {
    await until(() => text().includes('the-last'))
    // Its own calls of another's tool are in its own log.
    const rest = text().replaceAll(theirs.tool, '')
    expect([who, tellsOf(theirs).filter((mark) => rest.includes(mark)), rest.match(/.{80}aaaa.{80}/s)]).toEqual([
      who,
      [],
      null
    ])
  }
}
