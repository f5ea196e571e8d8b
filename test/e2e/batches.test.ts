import fc from 'fast-check'
import { expect, it } from 'vitest'
import { deny } from '../../server/pipeline/decisions.ts'
import { type LoggedEvent, startApp, type TestApp } from '../helpers/app.ts'

/** What is random about one call of a batch. */
interface PlannedCall {
  isParallel: boolean
  fate: 'runs' | 'denied' | 'throws' | 'unknown' | 'aborted' | 'unregisters'
  /** When its gate opens among those of its batch. */
  rank: number
}

const plannedCall: fc.Arbitrary<PlannedCall> = fc.record({
  isParallel: fc.boolean(),
  fate: fc.constantFrom('runs', 'runs', 'runs', 'denied', 'throws', 'unknown', 'aborted', 'unregisters'),
  rank: fc.nat(100)
})

/**
 * The whole server, with random batches: modes, order of settling by gates, denials, failures, aborts of single calls, and tools that
 * come and go while the batch runs. What must hold of the log whatever happens (core.md §22, §23).
 */
it('model: the log of any batch keeps its order, its pairs and its barriers', async () => {
  const cap = 3
  const app = await startApp({ 'calls.maxParallelToolCalls': String(cap) })
  app.app.tools.addHook('preExecute', (exec, next) => (exec.callId.endsWith('denied') ? deny('no') : next()))
  let batches = 0
  await fc.assert(
    fc.asyncProperty(fc.array(plannedCall, { minLength: 1, maxLength: 8 }), async (plan) => {
      batches += 1
      await runBatch(app, `m${batches}`, plan, cap)
    }),
    { numRuns: 60 }
  )
}, 120_000)

async function runBatch(app: TestApp, session: string, plan: readonly PlannedCall[], cap: number): Promise<void> {
  const running = new Set<string>()
  let most = 0
  const gates = new Map<string, () => void>()
  const opened = new Set<string>()
  const body = async (callId: string, fate: string): Promise<string> => {
    running.add(callId)
    most = Math.max(most, running.size)
    await new Promise<void>((resolve) => {
      gates.set(callId, resolve)
      if (opened.has(callId)) resolve()
    })
    if (fate === 'unregisters') undoVictim()
    running.delete(callId)
    if (fate === 'throws') throw new Error('thrown')
    return callId
  }
  const tool = (name: string, isParallel: boolean) => ({
    name,
    description: 'Waits for its gate.',
    parameters: { type: 'object' as const },
    output: { schema: {}, render: () => [] },
    isConcurrencySafe: () => isParallel,
    execute: (_args: unknown, exec: { callId: string }) => body(exec.callId, exec.callId.split('-').at(-1) ?? '')
  })
  const undos = [true, false].map((isParallel) => app.app.tools.register(tool(`${session}-${isParallel}`, isParallel)))
  const undoVictim = app.app.tools.register(tool(`${session}-victim`, true))
  const calls = plan.map(({ isParallel, fate }, index) => ({
    callId: `${session}-${index}-${fate}`,
    name: fate === 'unknown' ? `${session}-victim` : `${session}-${isParallel}`,
    arguments: {}
  }))
  const answer = app.batch(calls, { session })
  const order = plan.map((call, index) => ({ ...call, id: calls[index]?.callId ?? '' })).sort((a, b) => a.rank - b.rank)
  for (const { id, fate } of order) {
    if (fate === 'aborted')
      app.app.callEngine.calls.abort(new Error('cancelled'), ({ identity }) => identity.callId === id)
    opened.add(id)
    gates.get(id)?.()
    await new Promise((resolve) => setImmediate(resolve))
  }
  const { status, body: batch } = await answer
  for (const undo of [...undos, undoVictim]) undo()
  expect(status).toBe(200)
  expect(batch.results.map(({ callId }: { callId: string }) => callId)).toEqual(calls.map(({ callId }) => callId))
  expect(most).toBeLessThanOrEqual(cap)
  for (const [index, { fate }] of plan.entries()) {
    const { isError } = batch.results[index]
    if (fate === 'denied' || fate === 'throws') expect(isError).toBe(true)
    if (fate === 'runs' || fate === 'unregisters') expect(isError).toBe(false)
  }
  checkLog(await app.events(session), plan, calls)
}

function checkLog(
  events: readonly LoggedEvent[],
  plan: readonly PlannedCall[],
  calls: readonly { callId: string }[]
): void {
  expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index))
  expect(events.slice(0, 2).map(({ type }) => type)).toEqual(['turn/start', 'step/start'])
  expect(events.at(-1)?.type).toBe('step/end')
  const order = calls.map(({ callId }) => callId)
  const callEvents = events.filter(({ type }) => type === 'tool/call')
  const resultEvents = events.filter(({ type }) => type === 'tool/result')
  // A call that was aborted before its start is logged together with its result, which is in its place.
  const skipped = new Set(
    resultEvents
      .filter(({ data, seq, sourceEventSeqs }) => {
        return data.error?.code === 'ABORTED_BEFORE_DISPATCH' && sourceEventSeqs?.[0] === seq - 1
      })
      .map(({ data }) => data.message.source.callId as string)
  )
  const started = order.filter((id) => !skipped.has(id))
  expect(callEvents.map(({ data }) => data.callId).filter((id) => !skipped.has(id))).toEqual(started)
  expect(resultEvents.map(({ data }) => data.message.source.callId)).toEqual(order)
  const open = new Set<string>()
  for (const { type, data, sourceEventSeqs } of events) {
    if (type === 'tool/call') {
      const index = order.indexOf(data.callId)
      const isBarrier =
        plan[index]?.isParallel === false && plan[index]?.fate !== 'unknown' && !skipped.has(data.callId)
      if (isBarrier) expect([...open]).toEqual([])
      open.add(data.callId)
    }
    if (type === 'tool/result') {
      const { callId } = data.message.source
      expect(sourceEventSeqs).toEqual([callEvents.find((event) => event.data.callId === callId)?.seq])
      expect(open.delete(callId)).toBe(true)
    }
  }
  expect(open.size).toBe(0)
}
