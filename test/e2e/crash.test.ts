import { existsSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { describe, expect, it } from 'vitest'
import { brief, type LoggedEvent } from '../helpers/app.ts'
import { RunningServer } from '../helpers/running-server.ts'
import { temporaryDirectory } from '../helpers/temporary-directory.ts'
import { until } from '../helpers/until.ts'

const plugins = [resolve(import.meta.dirname, '../fixtures/plugins/counting-plugin.js')]

/** A home and its count file: what the bodies have done, whatever became of the server. */
function place() {
  const home = temporaryDirectory()
  const file = join(home, 'counted')
  return { home, file, counted: () => (existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n') : []) }
}

describe('a server that dies (core.md §23, api.md §2)', () => {
  it('kill -9 between a call and its result: the body ran once, its outcome is unknown, and replays say so', async () => {
    const { home, file, counted } = place()
    const first = await RunningServer.start(home, { plugins })
    const done = { name: 'count', callId: 'done', arguments: { file, line: 'done' } }
    const before = await first.request('/invoke', done)
    expect(before.body).toMatchObject({ isError: false, additionalContexts: [{ id: 'ctx-done' }] })
    const hang = { name: 'count', callId: 'hang', arguments: { file, line: 'hang', hang: true } }
    const calls = [hang, { ...done, callId: 'queued', arguments: { file, line: 'queued' } }]
    const cut = first.request('/invoke/batch', { calls }).catch(() => 'cut off')
    await until(() => counted().length === 2)
    const again = { ...hang, name: 'count-again', session: 'other', arguments: { ...hang.arguments, line: 'again' } }
    const cutToo = first.request('/invoke', again).catch(() => 'cut off')
    await until(() => counted().length === 3)
    expect(await first.end('SIGKILL')).toBeNull()
    expect([await cut, await cutToo]).toEqual(['cut off', 'cut off'])

    const second = await RunningServer.start(home, { plugins })
    expect((await second.request('/invoke', done)).body).toEqual({ ...before.body, replayed: true })
    const unknown = await second.request('/invoke', hang)
    expect(unknown.body).toMatchObject({
      replayed: true,
      isError: true,
      error: {
        info: { name: 'ToolOutcomeUnknownError', code: 'TOOL_OUTCOME_UNKNOWN' },
        effect: 'unknown',
        retryable: false
      }
    })
    // Declared idempotent, it may be called again whatever became of it (api.md §2).
    expect((await second.request('/invoke', again)).body.error).toEqual({ ...unknown.body.error, retryable: true })
    const notStarted = await second.request('/calls/default/queued')
    expect(notStarted.body).toMatchObject({
      state: 'done',
      result: { callSeq: -1, error: { info: { code: 'TOOL_NOT_STARTED' }, effect: 'none', retryable: true } }
    })
    expect(counted()).toEqual(['done', 'hang', 'again'])
    const { body } = await second.request('/sessions/default/events')
    expect(body.events.map((event: LoggedEvent) => brief(event))).toEqual([
      'turn/start 1',
      'tool/call done',
      'tool/result done',
      'step/start 1/2',
      'user/message ctx-done',
      'tool/call hang',
      'tool/result hang',
      'tool/result queued',
      'step/end 1/2',
      'turn/end 1 interrupted'
    ])
    const conflict = await second.request('/invoke', { ...hang, arguments: { file, line: 'other' } })
    expect([conflict.status, conflict.body.error.code]).toEqual([409, 'CALL_CONFLICT'])
    expect(counted()).toHaveLength(3)
  }, 60_000)

  it('a context that waited for the next step outlives an orderly end', async () => {
    const { home, file } = place()
    const first = await RunningServer.start(home, { plugins })
    await first.request('/invoke', { name: 'count', callId: 'c1', arguments: { file, line: 'kept' } })
    expect(await first.end('SIGTERM')).toBe(0)
    const second = await RunningServer.start(home, { plugins })
    const next = await second.request('/invoke', { name: 'count', callId: 'c2', arguments: { file, line: 'next' } })
    expect(next.body.additionalContexts.map(({ id }: { id: string }) => id)).toEqual(['ctx-next'])
    const { body } = await second.request('/sessions/default/events')
    expect(body.events.slice(-4).map((event: LoggedEvent) => brief(event))).toEqual([
      'turn/start 2',
      'user/message ctx-kept',
      'tool/call c2',
      'tool/result c2'
    ])
  }, 60_000)
})
