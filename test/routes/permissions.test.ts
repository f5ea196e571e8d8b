import { chmodSync, chownSync, mkdirSync, readdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { HomeApp, outcome } from '../helpers/home-app.ts'
import { sandboxGround, sandboxUid } from '../helpers/sandbox.ts'
import { temporaryDirectory } from '../helpers/temporary-directory.ts'
import { until } from '../helpers/until.ts'

const isRoot = process.getuid?.() === 0
const canConfine = await sandboxGround()
  .open()
  .then(
    () => true,
    () => false
  )

/** A server that confines, in a directory that the sandbox's user can come through. */
async function confining(settings: Record<string, string> = {}): Promise<HomeApp> {
  return HomeApp.start({ home: join(passable(), 'home'), 'shell.executor': 'bash-sandbox', ...settings })
}

function passable(): string {
  const directory = temporaryDirectory()
  chmodSync(directory, 0o755)
  return directory
}

/** A directory that commands may write in. */
function workspace(parent = passable()): string {
  const directory = join(parent, 'workspace')
  mkdirSync(directory)
  if (isRoot) chownSync(directory, sandboxUid, sandboxUid)
  return directory
}

const bash = (app: HomeApp, session: string, command: string, more: object = {}) =>
  app.ask('POST', '/invoke', { session, name: 'bash', arguments: { command, description: 'test', ...more } })

/** What the log of a session says of permissions and approvals. */
async function facts(app: HomeApp, session: string): Promise<string[]> {
  const { body } = await app.ask('GET', `/sessions/${session}/events?type=permission/*,sandbox/*,approval/*`)
  return body.events.map(
    ({ type, data }: any) => `${type} ${data.preset ?? data.mode ?? data.policy ?? data.outcome ?? data.reason}`
  )
}

async function pending(app: HomeApp): Promise<any> {
  let found: any
  await until(async () => {
    ;[found] = (await app.ask('GET', '/approvals')).body.approvals
    return found !== undefined
  })
  return found
}

const opening = ['permission/preset workspace-write', 'sandbox/mode workspace-write', 'approval/policy ask']

describe.skipIf(!canConfine)('permissions of sessions, where commands are confined', { timeout: 60_000 }, () => {
  it('C80 presets: what is set is logged in order, once, and what holds is derived', async () => {
    const app = await confining()
    expect((await app.ask('PUT', '/sessions/s', {})).status).toBe(201)
    expect(await facts(app, 's')).toEqual(opening)
    const get = async () => (await app.ask('GET', '/sessions/s/permissions')).body
    const put = (json: object) => app.ask('PUT', '/sessions/s/permissions', json)
    expect(await get()).toEqual({ preset: 'workspace-write', sandbox: 'workspace-write', approval: 'ask' })

    const free = { preset: 'danger-full-access', sandbox: 'danger-full-access', approval: 'never' }
    const set = ['permission/preset danger-full-access', 'sandbox/mode danger-full-access', 'approval/policy never']
    expect((await put({ preset: 'danger-full-access' })).body).toEqual(free)
    expect(await facts(app, 's')).toEqual([...opening, ...set])
    expect((await put({ preset: 'danger-full-access' })).body).toEqual(free)
    expect(await facts(app, 's')).toEqual([...opening, ...set])

    expect((await put({ sandbox: 'read-only' })).body).toEqual({
      preset: 'custom',
      sandbox: 'read-only',
      approval: 'never'
    })
    expect(outcome(await put({ preset: 'custom' }))).toBe('404 UNKNOWN_PRESET')
    expect((await put({ preset: 'nope' })).body.error.message).toContain(
      'workspace-write, danger-full-access, read-only'
    )
    // Only what is another value is logged.
    expect((await put({ approval: 'ask' })).body.preset).toBe('read-only')
    await put({ preset: 'read-only' })
    expect((await facts(app, 's')).slice(6)).toEqual([
      'sandbox/mode read-only',
      'approval/policy ask',
      'permission/preset read-only'
    ])
    await app.restart()
    expect(await get()).toEqual({ preset: 'read-only', sandbox: 'read-only', approval: 'ask' })
  })

  it('the log of a session that is made by its first call begins with them; a refused call leaves nothing', async () => {
    const app = await confining()
    const refused = await app.ask('POST', '/invoke', { session: 'r', name: 'bash', arguments: {}, turn: 7 })
    expect(outcome(refused)).toBe('409 TURN_CLOSED')
    expect(outcome(await app.ask('GET', '/sessions/r'))).toBe('404 UNKNOWN_SESSION')
    const calls = await Promise.all([bash(app, 'f', 'echo one'), bash(app, 'f', 'echo two')])
    expect(calls.map(({ body }) => body.isError)).toEqual([false, false])
    expect(await facts(app, 'f')).toEqual(opening)
    const { body } = await app.ask('GET', '/sessions/f/events?limit=4')
    expect(body.events.map(({ type }: any) => type)).toEqual([
      ...opening.map((text) => text.split(' ')[0]),
      'turn/start'
    ])
  })

  it('a mode of a scope holds in it and below, and with it the preset of new sessions', async () => {
    const config = { 'sandbox.scopes': '{"team":"read-only"}' }
    const app = await confining(config)
    await app.ask('PUT', '/scopes/team', {})
    await app.ask('PUT', '/scopes/member', { parent: 'team' })
    await app.ask('PUT', '/sessions/m', { scope: 'member' })
    expect(await facts(app, 'm')).toEqual([
      'permission/preset read-only',
      'sandbox/mode read-only',
      'approval/policy ask'
    ])
    const { body } = await app.ask('POST', '/invoke', {
      scope: 'member',
      session: 'm',
      name: 'bash',
      arguments: { command: 'touch a', description: 'test' }
    })
    expect(body.value.sandbox).toEqual({ mode: 'read-only', denied: true, enforcement: 'full' })
    expect(body.content[0].text).toMatch(
      /Read-only file system\n\[sandbox: file access denied under read-only mode\]\n.*sandbox_permissions.*\n\[exit code: 1\]$/
    )
  })

  it('a session of before gets the facts that it lacks, and keeps what holds', async () => {
    const home = join(passable(), 'home')
    const before = await HomeApp.start({ home, 'shell.executor': 'bash-local' })
    await bash(before, 'old', 'true')
    expect(await facts(before, 'old')).toEqual([])
    await before.app.close()
    const app = await confining({ home, 'approvals.policy': 'never' })
    await bash(app, 'old', 'true')
    await bash(app, 'old', 'true')
    // No preset says workspace-write with never.
    expect(await facts(app, 'old')).toEqual(['sandbox/mode workspace-write', 'approval/policy never'])
  })

  it('what was set holds when its events are pruned, and is not said again', async () => {
    const app = await confining({ 'sandbox.mode': 'danger-full-access', 'approvals.policy': 'never' })
    await app.ask('PUT', '/sessions/s', {})
    await app.ask('PUT', '/sessions/s/permissions', { preset: 'read-only' })
    await app.app.eventLog.prune('s', 1_000)
    await app.restart()
    const held = { preset: 'read-only', sandbox: 'read-only', approval: 'ask' }
    expect((await app.ask('GET', '/sessions/s/permissions')).body).toEqual(held)
    expect((await bash(app, 's', 'touch a')).body.value.sandbox).toMatchObject({ mode: 'read-only', denied: true })
    expect(await facts(app, 's')).toEqual([])
    // A new one under its name begins with the defaults.
    await app.ask('DELETE', '/sessions/s')
    await app.ask('PUT', '/sessions/s', {})
    expect((await app.ask('GET', '/sessions/s/permissions')).body.sandbox).toBe('danger-full-access')
  })

  it('a session without a directory works in a private one, which is kept, and goes with it', async () => {
    const app = await confining()
    const where = async (session: string) => (await bash(app, session, 'touch mine; pwd; ls -A')).body.value.stdout.text
    const [a, b] = [await where('a'), await where('b')]
    expect(a).toMatch(new RegExp(`^${app.home}/workspaces/session-[0-9a-f]{32}\nmine\n$`))
    expect(b).not.toBe(a)
    await app.restart()
    expect(await where('a')).toBe(a)
    await app.ask('DELETE', '/sessions/a')
    await until(() => readdirSync(join(app.home, 'workspaces')).length === 1)
    expect((await bash(app, 'a', 'ls -A')).body.value.stdout.text).toBe('')
  })

  it('works in the directory of the session, and nowhere else when that leads elsewhere', async () => {
    const app = await confining()
    const parent = passable()
    const cwd = workspace(parent)
    await app.ask('PUT', '/sessions/s', { cwd })
    expect((await bash(app, 's', 'pwd; touch a; ls')).body.value.stdout.text).toBe(`${cwd}\na\n`)
    renameSync(cwd, `${cwd}-moved`)
    symlinkSync('/var/tmp', cwd)
    const moved = await bash(app, 's', 'touch b')
    expect(moved.body.error).toMatchObject({
      info: { code: 'SANDBOX_UNAVAILABLE' },
      message: expect.stringMatching(/somewhere else/)
    })
    if (!isRoot) return
    await app.ask('PUT', '/sessions/closed', { cwd: passable() })
    const { body } = await bash(app, 'closed', 'touch a')
    expect(body.error).toMatchObject({
      info: { code: 'SANDBOX_UNAVAILABLE' },
      message: expect.stringMatching(/cannot write in the workspace/)
    })
  })

  it('operators change what holds, and neither agents nor observers; changes that come at once do not mix', async () => {
    const app = await confining()
    await app.ask('PUT', '/sessions/s', {})
    for (const role of ['agent', 'observer', 'provider'] as const) {
      const token = await app.tokenFor(role, 'global')
      const answer = await app.ask('PUT', '/sessions/s/permissions', { sandbox: 'danger-full-access' }, { token })
      expect(outcome(answer)).toBe('403 FORBIDDEN')
    }
    const token = await app.tokenFor('operator', 'global')
    expect((await app.ask('PUT', '/sessions/s/permissions', { sandbox: 'read-only' }, { token })).status).toBe(200)
    expect(outcome(await app.ask('PUT', '/sessions/s/permissions', {}))).toBe('400 BAD_REQUEST')
    expect(outcome(await app.ask('PUT', '/sessions/none/permissions', { preset: 'read-only' }))).toBe(
      '404 UNKNOWN_SESSION'
    )

    // Changes that come at once are made one after the other.
    await app.ask('PUT', '/sessions/s/permissions', { preset: 'read-only' })
    const names = ['read-only', 'danger-full-access', 'workspace-write', 'read-only', 'danger-full-access', 'read-only']
    await Promise.all(names.map((preset) => app.ask('PUT', '/sessions/s/permissions', { preset })))
    const logged = (await facts(app, 's')).slice(5)
    const current = (await app.ask('GET', '/sessions/s/permissions')).body
    const last = (type: string) => logged.findLast((fact) => fact.startsWith(type))?.split(' ')[1]
    expect(new Set([last('permission/preset'), last('sandbox/mode'), current.preset])).toEqual(
      new Set([current.sandbox])
    )
    for (const [index, fact] of logged.entries())
      if (fact.startsWith('permission'))
        expect(logged[index + 1]).toBe(fact.replace('permission/preset', 'sandbox/mode'))
  })

  it('sandbox.required leaves no way out', async () => {
    const app = await confining({ 'shell.executor': 'auto', 'sandbox.required': 'true' })
    const { body } = await app.ask('GET', '/presets')
    expect(body.presets.map(({ preset }: any) => preset)).toEqual(['workspace-write', 'read-only'])
    await app.ask('PUT', '/sessions/s', {})
    const put = (json: object) => app.ask('PUT', '/sessions/s/permissions', json)
    expect(outcome(await put({ sandbox: 'danger-full-access' }))).toBe('400 BAD_REQUEST')
    expect(outcome(await put({ preset: 'danger-full-access' }))).toBe('404 UNKNOWN_PRESET')
    const asked = await bash(app, 's', 'id', { sandbox_permissions: 'danger-full-access', justification: 'j' })
    expect(asked.body.error.info.code).toBe('INVALID_ARGS')
  })
})

describe.skipIf(!canConfine)('escalation (backends.md §11.3)', { timeout: 60_000 }, () => {
  const free = { sandbox_permissions: 'danger-full-access', justification: 'the test says so' }

  it('one call runs with more after a person allowed it, the next does not', async () => {
    const app = await confining()
    const place = join(passable(), 'outside')
    mkdirSync(place)
    const answer = bash(app, 's', `touch ${place}/a`, free)
    const approval = await pending(app)
    expect(approval).toMatchObject({
      toolName: 'bash',
      reason: 'escalate to danger-full-access: the test says so',
      arguments: { command: `touch ${place}/a` }
    })
    expect(readdirSync(place)).toEqual([])
    await app.ask('POST', `/approvals/${approval.id}`, { decision: 'allow', hash: approval.hash })
    expect((await answer).body.value).toMatchObject({
      exitCode: 0,
      sandbox: { mode: 'danger-full-access', denied: false }
    })
    expect(readdirSync(place)).toEqual(['a'])
    expect((await bash(app, 's', `touch ${place}/b`)).body.value.exitCode).not.toBe(0)
    expect((await facts(app, 's')).slice(3)).toEqual([
      'approval/asked escalate to danger-full-access: the test says so',
      'approval/decided allowed-once'
    ])
  })

  it('nothing runs when a person refuses, when asks are off, and when the call is cancelled', async () => {
    const app = await confining()
    const cwd = workspace()
    await app.ask('PUT', '/sessions/s', { cwd })
    const refused = bash(app, 's', 'touch ran', free)
    await app.ask('POST', `/approvals/${(await pending(app)).id}`, { decision: 'deny' })
    expect((await refused).body).toMatchObject({ isError: true, error: { info: { code: 'ESCALATION_REJECTED' } } })

    const cancelled = app.ask('POST', '/invoke', {
      session: 's',
      callId: 'c',
      name: 'bash',
      arguments: { command: 'touch ran', description: 'test', ...free }
    })
    await pending(app)
    await app.ask('POST', '/calls/s/c/cancel')
    expect((await cancelled).body.error.info.code).toBe('ESCALATION_CANCELLED')

    await app.ask('PUT', '/sessions/s/permissions', { approval: 'never' })
    expect((await bash(app, 's', 'touch ran', free)).body.error.info.code).toBe('ESCALATION_REJECTED')
    expect(readdirSync(cwd)).toEqual([])
  })

  it('is offered with the modes that can be asked for; what is malformed is an error, and nobody is asked', async () => {
    const app = await confining()
    const { body } = await app.ask('GET', '/scopes/global/schemas')
    const { properties } = body.schemas.find(({ name }: any) => name === 'bash').parameters
    expect(properties.sandbox_permissions.enum).toEqual(['workspace-write', 'danger-full-access'])
    const malformed: [object, RegExp, string?][] = [
      [{ sandbox_permissions: 'danger-full-access' }, /go together/],
      [{ justification: 'j' }, /go together/],
      [{ sandbox_permissions: 'danger-full-access', justification: ' ' }, /blank/],
      [{ sandbox_permissions: 'workspace-write', justification: 'j' }, /not more than/],
      [{ sandbox_permissions: 'root', justification: 'j' }, /sandbox_permissions/, 'INVALID_ARGS']
    ]
    for (const [more, message, code = 'ESCALATION_INVALID'] of malformed) {
      const { error } = (await bash(app, 's', 'true', more)).body
      expect(error, JSON.stringify(more)).toMatchObject({ message: expect.stringMatching(message), info: { code } })
    }
    expect((await app.ask('GET', '/approvals')).body.approvals).toEqual([])
    expect(await facts(app, 's')).toEqual(opening)
  })
})

describe('where nothing is confined', () => {
  it('nothing pretends to be: no presets, no escalation, no events', async () => {
    const app = await HomeApp.start({ 'shell.executor': 'bash-local' })
    await app.ask('PUT', '/sessions/s', {})
    expect((await app.ask('GET', '/presets')).body).toEqual({ presets: [] })
    expect(outcome(await app.ask('GET', '/sessions/s/permissions'))).toBe('409 SANDBOX_MISSING')
    expect(outcome(await app.ask('PUT', '/sessions/s/permissions', { preset: 'read-only' }))).toBe(
      '409 SANDBOX_MISSING'
    )
    const { body } = await bash(app, 's', 'pwd')
    expect(body.value.stdout.text).toBe(`${process.cwd()}\n`)
    expect(body.value).not.toHaveProperty('sandbox')
    expect(await facts(app, 's')).toEqual([])
    const asked = await bash(app, 's', 'true', { sandbox_permissions: 'danger-full-access', justification: 'j' })
    expect(asked.body.error.message).toMatch(/means nothing here/)
  })
})

describe('where it should be and cannot be', () => {
  it.each([{ 'shell.executor': 'bash-sandbox' }, { 'sandbox.required': 'true' }])(
    'X2 %j without bwrap: no bash, not ready, and the server says why',
    async (settings) => {
      const directory = temporaryDirectory()
      writeFileSync(join(directory, 'env'), '', { mode: 0o755 })
      const path = process.env['PATH']
      process.env['PATH'] = directory
      const app = await HomeApp.start({ home: join(temporaryDirectory(), 'home'), ...settings }).finally(() => {
        process.env['PATH'] = path
      })
      expect(await app.names('global')).not.toContain('bash')
      const ready = await app.ask('GET', '/health/ready')
      expect([ready.status, ready.body.reasons.sandbox]).toEqual([503, 'there is no bash: bwrap is not installed'])
      const { body } = await bash(app, 's', 'id')
      expect(body.error.info.code).toBe('UNKNOWN_TOOL')
    }
  )
})
