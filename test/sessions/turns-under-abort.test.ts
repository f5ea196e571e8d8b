import { expect, it } from 'vitest'
import { endTurn } from '../../server/invocations/turn-control.ts'
import { CallFixture } from '../helpers/call-fixture.ts'
import { until } from '../helpers/until.ts'

it('a turn that is being aborted ends once, also when somebody ends it just as its last call has ended (core.md §24.3)', async () => {
  const fixture = new CallFixture()
  const session = await fixture.open()
  let isRunning = false
  fixture.body = async ({ signal }) => {
    isRunning = true
    await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
    return 'stopped'
  }
  let other: Promise<unknown> | undefined
  const append = fixture.log.append.bind(fixture.log)
  fixture.log.append = (request) => {
    // The step is left by now, and its caller not yet told.
    if (request.events?.some(({ type }) => type === 'tool/result') === true) {
      other = endTurn(fixture.engine, session, { turn: 1, kind: 'completed' }).catch((error: unknown) => error)
    }
    return append(request)
  }
  const call = fixture.invoke('c1')
  await until(() => isRunning)
  await endTurn(fixture.engine, session, { turn: 1, kind: 'aborted', cause: 'the user' })
  expect(await other).toMatchObject({ code: 'TURN_BUSY' })
  expect(await call).toMatchObject({ error: { info: { code: 'ABORTED' } } })
  expect(await fixture.events()).toEqual(['turn/start 1', 'tool/call c1', 'tool/result c1', 'turn/end 1 aborted'])
})
