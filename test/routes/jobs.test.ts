import { describe, expect, it } from 'vitest'
import { EventClient } from '../helpers/served-app.ts'
import { type Answer, startApp, type TestApp } from '../helpers/app.ts'
import { processesWith, uniqueSleep } from '../helpers/processes.ts'
import { until } from '../helpers/until.ts'

/** A server where commands run in a directory of their own, which `touch` can signal. */
async function open(settings: Record<string, string> = {}): Promise<TestApp> {
  return startApp({ 'shell.graceMs': '500', 'shell.executor': 'bash-local', ...settings })
}

/** Starts a command in the background, and gives the id of its job. */
async function start(app: TestApp, command: string, more: Record<string, unknown> = {}): Promise<string> {
  const { value } = await app.invoke({
    name: 'bash',
    arguments: { command, description: 'x', run_in_background: true },
    ...more
  })
  return (value as { jobId: string }).jobId
}

/** A command that prints, then waits until the test lets it go on by making the file. */
const gated = (before: string, file: string, after: string): string =>
  `${before}; until [ -e ${file} ]; do sleep .02; done; rm ${file}; ${after}`

const gateFile = (): string => `/tmp/toolwright-test-gate-${process.pid}-${Math.random().toString(36).slice(2)}`
const pass = (app: TestApp, file: string): Promise<unknown> =>
  app.invoke({ name: 'bash', arguments: { command: `touch ${file}`, description: 'x' }, session: 'gates' })

const outputOf = (app: TestApp, id: string, query = ''): Promise<Answer> => app.get(`/jobs/${id}/output${query}`)

const ended = (app: TestApp, id: string): Promise<void> =>
  until(() => app.app.jobs.find(id)?.job.finishedAt !== undefined)

async function as(app: TestApp, token: string, path: string, json?: unknown): Promise<Answer> {
  const response = await app.served.call(path, { token, ...(json === undefined ? {} : { json }) })
  return { status: response.status, headers: response.headers, body: await response.json() }
}

const brief = ({ status, body }: Answer): string => `${status} ${body.error?.code ?? ''}`.trim()

describe('GET /jobs (api.md §7)', () => {
  it('lists jobs with their sessions, in pages, in order of their start', async () => {
    const app = await open()
    expect((await app.get('/jobs')).body).toEqual({ jobs: [] })
    await start(app, `sleep ${uniqueSleep()}`)
    await start(app, 'exit 3', { session: 's2' })
    await start(app, 'true')
    await Promise.all([ended(app, 'bash-2'), ended(app, 'bash-3')])
    const { body } = await app.get('/jobs')
    expect(body.jobs[0]).toEqual({
      id: 'bash-1',
      kind: 'bash',
      label: expect.stringMatching(/^sleep/),
      status: 'running',
      startedAt: expect.any(Number),
      session: 'default',
      scope: 'global'
    })
    expect(body.jobs[1]).toMatchObject({ id: 'bash-2', session: 's2', status: 'completed', detail: 'exit code: 3' })
    const first = await app.get('/jobs?limit=2')
    expect(first.body.jobs.map(({ id }: { id: string }) => id)).toEqual(['bash-1', 'bash-2'])
    const second = await app.get(`/jobs?limit=2&after=${first.body.next}`)
    expect(second.body).toEqual({ jobs: [body.jobs[2]] })
    expect((await app.get('/jobs?session=s2')).body).toEqual({ jobs: [body.jobs[1]] })
    expect(brief(await app.get('/jobs?after=bash-99'))).toBe('410 CURSOR_EXPIRED')
    expect(brief(await app.get('/jobs?scope=nope'))).toBe('404 UNKNOWN_SCOPE')
  })

  it('a job outside one’s reach does not exist, and only operators end one', async () => {
    const app = await open()
    await app.served.call('/scopes/team', { method: 'PUT', json: {} })
    await app.served.call('/scopes/other', { method: 'PUT', json: {} })
    const id = await start(app, `sleep ${uniqueSleep()}`, { scope: 'team' })
    for (const role of ['agent', 'observer', 'operator'] as const) {
      const outside = await app.served.tokenFor(role, 'other')
      expect((await as(app, outside, '/jobs')).body).toEqual({ jobs: [] })
      expect(brief(await as(app, outside, `/jobs/${id}/output?waitMs=0`))).toBe('404 UNKNOWN_JOB')
      const inside = await app.served.tokenFor(role, 'team')
      expect((await as(app, inside, '/jobs')).body.jobs).toHaveLength(1)
      expect(brief(await as(app, inside, `/jobs/${id}/output?waitMs=0`))).toBe('200')
      const expected = role === 'operator' ? ['404 UNKNOWN_JOB', '200'] : ['403 FORBIDDEN', '403 FORBIDDEN']
      const kills = [outside, inside].map((token) => as(app, token, `/jobs/${id}/kill`, {}))
      expect((await Promise.all(kills)).map(brief)).toEqual(expected)
    }
    expect(brief(await app.get('/jobs/__proto__/output'))).toBe('404 UNKNOWN_JOB')
  })
})

describe('GET /jobs/{id}/output', () => {
  it('F31 a malformed cursor is 400, one beyond the end waits and loses nothing', async () => {
    const app = await open()
    const file = gateFile()
    const id = await start(app, gated('printf early', file, 'printf late'))
    await until(async () => (await outputOf(app, id)).body.text === 'early')
    for (const cursor of ['abc', '-1', '1.5', '1e3', '0x10', '', '%20', '1'.repeat(30), '0&after=1']) {
      expect(brief(await outputOf(app, id, `?after=${cursor}`)), cursor).toBe('400 BAD_REQUEST')
    }
    expect((await outputOf(app, id, '?after=999999&waitMs=0')).body).toMatchObject({ text: '', next: 5, isEnd: false })
    const waiting = outputOf(app, id, '?after=999999&waitMs=60000')
    await pass(app, file)
    expect((await waiting).body).toMatchObject({ text: 'late', from: 5, next: 9 })
    await ended(app, id)
    expect((await outputOf(app, id, '?after=9')).body).toMatchObject({
      text: '',
      next: 9,
      isEnd: true,
      job: { status: 'completed', session: 'default' }
    })
  })

  it('F35 every reader gets the same bytes from the start, and takes none from job_output', async () => {
    const app = await open()
    const id = await start(app, 'for i in 1 2 3 4 5 6 7 8; do echo "Zeile $i: 你"; sleep .02; done; echo weh >&2')
    const readAll = async (maxBytes: number): Promise<string> => {
      let text = ''
      for (let after = 0, isEnd = false; !isEnd;) {
        const { body } = await outputOf(app, id, `?after=${after}&maxBytes=${maxBytes}`)
        expect([body.from, body.truncated]).toEqual([after, false])
        text += body.text
        after = body.next
        isEnd = body.isEnd
      }
      return text
    }
    const expected = [1, 2, 3, 4, 5, 6, 7, 8].map((i) => `Zeile ${i}: 你\n`).join('')
    expect(await Promise.all([1, 7, 64, 65_536].map(readAll))).toEqual([expected, expected, expected, expected])
    expect((await outputOf(app, id, '?stream=stderr')).body).toMatchObject({ text: 'weh\n', isEnd: true })
    const { value } = await app.invoke({ name: 'job_output', arguments: { job_id: id, wait: true } })
    expect(value).toMatchObject({ text: `${expected}[stderr]\nweh\n` })
  })

  it('says when what it was asked for is no longer kept', async () => {
    const app = await open({ 'shell.maxOutputBytes': '100' })
    const id = await start(app, 'seq 1 1000')
    await ended(app, id)
    const { body } = await outputOf(app, id, '?after=5')
    expect(body).toMatchObject({ truncated: true, from: 3893 - 100, next: 3893, isEnd: true })
    expect(body.text).toMatch(/\n1000\n$/)
  })
})

describe('POST /jobs/{id}/kill', () => {
  it('tells the job to end, says so live, and says when it had ended', async () => {
    const app = await open()
    const client = await EventClient.open(app.served)
    await client.ask({ type: 'subscribe', id: 'a', events: ['job/*'] })
    const id = await start(app, `sleep ${uniqueSleep()}`)
    const { body } = await app.post(`/jobs/${id}/kill`, { reason: 'enough' })
    expect(body).toMatchObject({
      outcome: 'cancellation-requested',
      job: { id, status: 'stopping', session: 'default' }
    })
    await ended(app, id)
    expect((await app.post(`/jobs/${id}/kill`)).body).toMatchObject({
      outcome: 'already-finished',
      job: { status: 'killed', detail: 'signal: SIGTERM' }
    })
    await client.next((frame) => (frame.event as any)?.data?.status === 'killed')
    const seen = client.frames.filter(({ type }) => type === 'event').map(({ event }) => (event as any).data)
    expect(seen.map(({ status }) => status)).toEqual(['running', 'stopping', 'killed'])
    expect(seen[2]).toMatchObject({
      id,
      kind: 'bash',
      session: 'default',
      scope: 'global',
      finishedAt: expect.any(Number)
    })
    expect(brief(await app.post('/jobs/bash-99/kill'))).toBe('404 UNKNOWN_JOB')
  })

  it('shows the jobs of a scope to no other', async () => {
    const app = await open()
    await app.served.call('/scopes/team', { method: 'PUT', json: {} })
    await app.served.call('/scopes/other', { method: 'PUT', json: {} })
    const client = await EventClient.open(app.served, await app.served.tokenFor('observer', 'other'))
    await client.ask({ type: 'subscribe', id: 'a' })
    await ended(app, await start(app, 'true', { scope: 'team' }))
    await ended(app, await start(app, 'true', { scope: 'other' }))
    await client.next((frame) => (frame.event as any)?.data?.status === 'completed')
    const jobs = client.frames
      .filter(({ event }) => event?.type === 'job/changed')
      .map(({ event }) => (event as any).data)
    expect(new Set(jobs.map(({ scope }) => scope))).toEqual(new Set(['other']))
  })
})

describe('the end of a job (backends.md §4.2)', () => {
  it('C27 comes once, in the next answer and in the log of the next step', async () => {
    const app = await open()
    const id = await start(app, 'exit 3')
    await ended(app, id)
    const next = await app.invoke({ name: 'echo', arguments: { text: 'hi' } })
    expect(next.additionalContexts).toHaveLength(1)
    const [notice] = next.additionalContexts!
    const { text } = notice!.content[0] as { text: string }
    for (const part of [id, '[status: completed, exit code: 3]', 'job_output']) expect(text).toContain(part)
    expect(notice!.source).toMatchObject({ kind: 'plugin', plugin: 'jobs', form: 'notice' })
    expect((await app.invoke({ name: 'echo', arguments: {} })).additionalContexts).toBeUndefined()
    const messages = (await app.events()).filter(({ type }) => type === 'user/message')
    expect(messages.map(({ data }) => data.id)).toEqual([notice!.id])
    expect((await app.invoke({ name: 'echo', arguments: {}, session: 'other' })).additionalContexts).toBeUndefined()
  })

  it('C27 does not come of a job that was killed or waited for', async () => {
    const app = await open()
    const killed = await start(app, `sleep ${uniqueSleep()}`)
    await app.invoke({ name: 'job_kill', arguments: { job_id: killed } })
    await ended(app, killed)
    const waited = await start(app, 'sleep .1')
    const wait = await app.invoke({ name: 'job_output', arguments: { job_id: waited, wait: true } })
    expect(wait.value).toMatchObject({ job: { status: 'completed' } })
    expect(wait.additionalContexts).toBeUndefined()
    expect((await app.invoke({ name: 'echo', arguments: {} })).additionalContexts).toBeUndefined()
  })

  it('a batch’s answer carries the end of a job that came while it ran', async () => {
    const app = await open()
    const file = gateFile()
    const id = await start(app, gated('true', file, 'true'))
    const running = app.batch([{ name: 'gate', arguments: { id: 'g' } }])
    await app.entered('g')
    await pass(app, file)
    await ended(app, id)
    app.release('g')
    const { body } = await running
    expect(body.additionalContexts).toHaveLength(1)
    expect(body.additionalContexts[0].content[0].text).toContain(id)
  })
})

describe('ownership', () => {
  it('another session, and another scope, reach no job by a tool', async () => {
    const app = await open()
    const id = await start(app, `sleep ${uniqueSleep()}`)
    for (const name of ['job_output', 'job_kill']) {
      const { error } = await app.invoke({ name, arguments: { job_id: id }, session: 's2' })
      expect(error?.info).toEqual({ name: 'JobError', code: 'FOREIGN_JOB' })
      const unknown = await app.invoke({ name, arguments: { job_id: 'bash-77' }, session: 's2' })
      expect(unknown.error?.info?.code).toBe('UNKNOWN_JOB')
    }
    expect((await app.invoke({ name: 'job_list', session: 's2' })).value).toEqual([])
    expect((await app.invoke({ name: 'job_list' })).value).toHaveLength(1)
  })

  it('at most so many of a session run, those that are being ended included', async () => {
    const app = await open({ 'jobs.maxConcurrentPerOwner': '2' })
    const ids = [await start(app, "trap '' TERM; sleep 5 & wait; sleep 5"), await start(app, `sleep ${uniqueSleep()}`)]
    await app.invoke({ name: 'job_kill', arguments: { job_id: ids[0] } })
    const command = { command: 'true', description: 'x', run_in_background: true }
    const refused = await app.invoke({ name: 'bash', arguments: command })
    expect(refused.error?.info?.code).toBe('JOB_LIMIT')
    expect(await start(app, 'true', { session: 's2' })).toBe('bash-3')
    await ended(app, ids[0] as string)
    expect(await start(app, 'true')).toBe('bash-4')
  })

  it('C25 a server may be told to offer no background', async () => {
    const app = await open({ 'jobs.enableRunInBackground': 'false' })
    const { body } = await app.get('/scopes/global/schemas')
    const bash = body.schemas.find(({ name }: { name: string }) => name === 'bash')
    expect(bash.parameters.properties).not.toHaveProperty('run_in_background')
    const marker = uniqueSleep()
    const command = { command: `sleep ${marker}`, description: 'x', run_in_background: true }
    expect((await app.invoke({ name: 'bash', arguments: command })).isError).toBe(true)
    expect(processesWith(marker)).toEqual([])
  })
})

describe('the jobs of what is disposed', () => {
  it('end with their session, and their ids are not given again', async () => {
    const app = await open()
    const sleep = uniqueSleep()
    await start(app, `sleep ${sleep}; true`, { session: 's1' })
    await until(() => processesWith(sleep).length > 0)
    expect((await app.served.call('/sessions/s1', { method: 'DELETE' })).status).toBe(204)
    expect(processesWith(sleep)).toEqual([])
    expect((await app.get('/jobs')).body.jobs).toEqual([])
    expect(await app.app.eventLog.rows('jobs', {})).toEqual([])
    expect(await start(app, 'true', { session: 's1' })).toBe('bash-2')
  })

  it('end with their scope, those of scopes below it too', async () => {
    const app = await open()
    const sleep = uniqueSleep()
    await app.served.call('/scopes/team', { method: 'PUT', json: {} })
    await app.served.call('/scopes/member', { method: 'PUT', json: { parent: 'team' } })
    await start(app, `sleep ${sleep}; true`, { scope: 'member' })
    const stays = await start(app, `sleep ${uniqueSleep()}`)
    await until(() => processesWith(sleep).length > 0)
    expect((await app.served.call('/scopes/team', { method: 'DELETE' })).status).toBeLessThan(300)
    expect(processesWith(sleep)).toEqual([])
    expect((await app.get('/jobs')).body.jobs.map(({ id }: { id: string }) => id)).toEqual([stays])
  })

  it('a scope with a job is not idle, and lives on from its end', async () => {
    const app = await open()
    const file = gateFile()
    for (const scope of ['busy', 'idle']) {
      await app.served.call(`/scopes/${scope}`, { method: 'PUT', json: { ttlMs: 1_000 } })
    }
    const isThere = async (scope: string) => (await app.get(`/scopes/${scope}`)).status === 200
    const id = await start(app, gated('true', file, 'true'), { scope: 'busy' })
    // Made later and used later, it is idle later.
    await app.invoke({ name: 'echo', arguments: {}, scope: 'idle' })
    await until(async () => !(await isThere('idle')))
    expect(await isThere('busy')).toBe(true)
    await pass(app, file)
    await ended(app, id)
    await until(async () => !(await isThere('busy')))
    await until(async () => (await app.get('/jobs')).body.jobs.length === 0)
  })

  it('end with the server', async () => {
    const app = await open()
    const sleep = uniqueSleep()
    await start(app, `setsid sleep ${sleep} & sleep ${sleep}; true`)
    await until(() => processesWith(sleep).length > 1)
    await app.app.close()
    expect(processesWith(sleep)).toEqual([])
  })
})
