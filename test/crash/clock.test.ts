import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { verifyLog } from '../../server/event-log/sqlite/verify-log.js'
import { temporaryDirectory } from '../helpers/temporary-directory.ts'
import { removeTraces } from './harness.ts'
import { ServerProcess } from './server-process.ts'

const library = [
  '/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1',
  '/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1'
].find(existsSync)

it.skipIf(library === undefined)(
  'C12: a clock that jumps ahead and back orders nothing, expires nothing running and deletes nothing',
  async () => {
    const home = join(temporaryDirectory(), 'home')
    onTestFinished(() => removeTraces(home))
    const call = (callId: string) => ({ callId, name: 'note', arguments: { text: callId, ms: 5 } })
    const times: number[] = []
    for (const [n, offset] of ['+1y', '-2h', '+0', '-400d', '+40d'].entries()) {
      const server = await ServerProcess.start({ home, env: { LD_PRELOAD: library as string, FAKETIME: offset } })
      const { status, body } = await server.request('POST', '/invoke', call(`c${n}`))
      expect([status, body.isError, body.durationMs < 5000]).toEqual([200, false, true])
      times.push(body.startedAt)
      const slow = { name: 'bash', arguments: { command: 'sleep 30', description: 'Waits', timeoutMs: 300 } }
      expect((await server.request('POST', '/invoke', slow)).body.content[0].text).toMatch(/timed out/i)
      // An earlier call, of another clock, is answered as it was.
      expect((await server.request('POST', '/invoke', call('c0'))).body).toMatchObject({
        value: 'c0',
        ...(n > 0 && { replayed: true })
      })
      await server.kill()
    }
    expect(times[0]).toBeGreaterThan((times[1] as number) + 300 * 24 * 3_600_000)
    const server = await ServerProcess.start({ home })
    const { body } = await server.request('GET', '/sessions/default/events?after=-1&limit=500')
    const events = body.events as { seq: number; type: string; data: { callId: string } }[]
    expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index))
    const noted = events
      .filter(({ type, data }) => type === 'tool/call' && data.callId.startsWith('c'))
      .map(({ data }) => data.callId)
    expect(noted.filter((id) => /^c\d$/.test(id))).toEqual(['c0', 'c1', 'c2', 'c3', 'c4'])
    await server.stop()
    expect(verifyLog(home).damagedSessions).toEqual([])
  },
  120_000
)
