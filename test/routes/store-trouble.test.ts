import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { TestApp } from '../helpers/app.ts'
import { FlakyLog } from '../helpers/flaky-log.ts'
import { EventClient, serveApp } from '../helpers/served-app.ts'
import { temporaryDirectory } from '../helpers/temporary-directory.ts'
import { until } from '../helpers/until.ts'

const gate = (callId: string) => ({ name: 'gate', callId, arguments: { id: callId } })

it('C5: while the store fails every call is answered 503 and nothing else is lost; then the log is put right by itself [core-22.7]', async () => {
  const log = new FlakyLog()
  const app = new TestApp(await serveApp({}, { log }))
  const client = await EventClient.open(app.served)
  await client.ask({ type: 'subscribe', id: 's', after: -1 })
  const inFlight = app.post('/invoke', gate('c1'))
  await app.entered('c1')
  onTestFinished(() => app.release('c1'))
  log.refuses = () => true
  log.tell('unavailable')

  const refused = await app.post('/invoke', { name: 'echo', callId: 'c2' })
  expect([refused.status, refused.body.error.code]).toEqual([503, 'STORE_UNAVAILABLE'])
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(0)
  const batch = await app.batch([{ name: 'echo' }])
  expect([batch.status, batch.body.error.code]).toEqual([503, 'STORE_UNAVAILABLE'])
  client.send({ type: 'invoke', id: 'i', name: 'echo' })
  expect(await client.next(({ id }) => id === 'i')).toMatchObject({ type: 'error', code: 'STORE_UNAVAILABLE' })
  expect((await app.get('/health/ready')).status).toBe(503)
  expect((await app.get('/health/live')).status).toBe(200)
  // What is stored can be read all the while.
  expect(await app.log()).toEqual(['turn/start 1', 'tool/call c1'])
  expect((await app.get('/sessions')).body.sessions).toHaveLength(1)
  app.release('c1')
  expect(await inFlight).toMatchObject({ status: 503, body: { error: { code: 'STORE_UNAVAILABLE' } } })
  expect(await app.log()).toEqual(['turn/start 1', 'tool/call c1'])
  expect((await app.post('/invoke', gate('c1'))).status).toBe(503)
  expect((await app.post('/sessions/default/turns')).status).toBe(503)

  log.refuses = () => false
  log.tell('open')
  await until(async () => (await app.events()).length === 4)
  expect(await app.log()).toEqual(['turn/start 1', 'tool/call c1', 'tool/result c1', 'turn/end 1 error'])
  expect((await app.get('/health/ready')).status).toBe(200)
  expect((await app.post('/invoke', gate('c1'))).body).toMatchObject({
    replayed: true,
    error: { info: { code: 'TOOL_OUTCOME_UNKNOWN' }, effect: 'unknown' }
  })
  expect(app.trace.filter((entry) => entry === 'body:c1')).toHaveLength(1)
  expect((await app.post('/invoke', { name: 'echo', callId: 'c2' })).body).toMatchObject({ isError: false })
  await until(() => client.events('s').filter((type) => type === 'turn/start').length === 2)
  expect(client.frames.filter(({ type, id }) => type === 'error' && id === 's')).toEqual([])
})

it.skipIf(process.getuid?.() !== 0)(
  'C6: a disk that fills up refuses calls, loses none that was answered, and serves again once there is room',
  async () => {
    const home = temporaryDirectory()
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64m', 'tmpfs', home])
    onTestFinished(() => void execFileSync('umount', ['-l', home]))
    const app = new TestApp(await serveApp({ home }))
    // Before the server's own end, which needs room too.
    onTestFinished(() => rmSync(join(home, 'filler'), { force: true }))
    writeFileSync(join(home, 'filler'), Buffer.alloc(34 * 1024 * 1024))
    const acked = new Map<string, string>()
    const call = (callId: string, text: string) => app.post('/invoke', { name: 'echo', callId, arguments: { text } })
    let refused
    for (let n = 0; refused === undefined; n += 1) {
      const text = randomBytes(500_000).toString('base64')
      const answer = await call(`c${n}`, text)
      if (answer.status === 200) acked.set(`c${n}`, text)
      else refused = answer
    }
    expect([refused.status, refused.body.error.code]).toEqual([503, 'STORE_UNAVAILABLE'])
    expect(acked.size).toBeGreaterThan(1)
    expect((await app.get('/health/ready')).status).toBe(503)
    for (const [callId, text] of acked) expect((await app.report(callId)).body.result?.value === text).toBe(true)

    rmSync(join(home, 'filler'))
    await until(async () => (await app.get('/health/ready')).status === 200)
    expect((await call('after', 'room')).body).toMatchObject({ isError: false, value: 'room' })
    for (const [callId, text] of acked) {
      expect((await call(callId, text)).body).toMatchObject({ replayed: true, isError: false })
    }
    expect((await app.events()).map(({ seq }) => seq)).toEqual((await app.events()).map((_, index) => index))
  },
  60_000
)
