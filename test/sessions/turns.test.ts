import { describe, expect, it } from 'vitest'
import { RequestError } from '../../server/errors.ts'
import { Turns } from '../../server/sessions/turns.ts'

const types = (events: readonly { type: string }[]): string[] => events.map(({ type }) => type)
const quiet = { concludes: false, hasQueuedContexts: false }
const code = (run: () => unknown): string => {
  try {
    run()
  } catch (error) {
    if (error instanceof RequestError) return error.code
    throw error
  }
  return 'none'
}

describe('turns and steps (api.md §2)', () => {
  it('a plain call opens turn 1 and takes a numbered step without events [core-23.turns]', () => {
    const turns = new Turns()
    const first = turns.enter({ calls: 1 })
    expect(first.ref).toEqual({ turn: 1, step: 1 })
    expect(types(first.events)).toEqual(['turn/start'])
    const second = turns.enter({ calls: 1 })
    expect(second.ref).toEqual({ turn: 1, step: 2 })
    expect(second.events).toEqual([])
    expect(turns.leave(first.ref, quiet)).toEqual([])
    expect(turns.isBusy).toBe(true)
    turns.leave(second.ref, quiet)
    expect(turns.isBusy).toBe(false)
  })

  it('a given step is opened, joined, and ended by a higher one once its calls are done', () => {
    const turns = new Turns()
    const opened = turns.enter({ step: 3, calls: 1 })
    expect(types(opened.events)).toEqual(['turn/start', 'step/start'])
    const joined = turns.enter({ step: 3, calls: 1 })
    expect(joined).toEqual({ ref: { turn: 1, step: 3 }, events: [], takesContexts: false })
    const higher = turns.enter({ step: 5, calls: 1 })
    expect(types(higher.events)).toEqual(['step/start'])
    expect(turns.leave(opened.ref, quiet)).toEqual([])
    expect(types(turns.leave(joined.ref, quiet))).toEqual(['step/end'])
    expect(code(() => turns.enter({ step: 3, calls: 1 }))).toBe('STEP_CLOSED')
    expect(code(() => turns.enter({ step: 4, calls: 1 }))).toBe('STEP_CLOSED')
    turns.leave(higher.ref, quiet)
    const next = turns.enter({ step: 6, calls: 1 })
    expect(next.events).toEqual([
      { type: 'step/end', data: { turn: 1, step: 5 } },
      { type: 'step/start', data: { turn: 1, step: 6 } }
    ])
  })

  it('a step that is closing because a higher one opened takes no more calls', () => {
    const turns = new Turns()
    turns.enter({ step: 1, calls: 1 })
    turns.enter({ step: 2, calls: 1 })
    expect(code(() => turns.enter({ step: 1, calls: 1 }))).toBe('STEP_CLOSED')
  })

  it('a batch writes its step start and its step end', () => {
    const turns = new Turns()
    const batch = turns.enter({ calls: 2, isBatch: true })
    expect(types(batch.events)).toEqual(['turn/start', 'step/start'])
    expect(turns.leave(batch.ref, quiet)).toEqual([])
    turns.closeStep(batch.ref)
    expect(types(turns.leave(batch.ref, quiet))).toEqual(['step/end'])
  })

  it('a given turn is the open one or the next; the next waits for calls [core-23.turns]', () => {
    const turns = new Turns()
    expect(code(() => turns.enter({ turn: 2, calls: 1 }))).toBe('TURN_CLOSED')
    const { ref } = turns.enter({ turn: 1, calls: 1 })
    expect(code(() => turns.enter({ turn: 2, calls: 1 }))).toBe('TURN_BUSY')
    expect(turns.state).toEqual({ turn: 1, isOpen: true, lastStep: 1 })
    turns.leave(ref, quiet)
    const next = turns.enter({ turn: 2, calls: 1 })
    expect(next.ref).toEqual({ turn: 2, step: 1 })
    expect(next.events).toEqual([
      { type: 'turn/end', data: { turn: 1, reason: { kind: 'completed' } } },
      { type: 'turn/start', data: { turn: 2 } }
    ])
    expect(code(() => turns.enter({ turn: 1, calls: 1 }))).toBe('TURN_CLOSED')
  })

  it('C115 a concluded step ends the turn, unless a context is queued: that one gets one more step [core-24.2]', () => {
    const turns = new Turns()
    const { ref } = turns.enter({ calls: 2, isBatch: true })
    turns.leave(ref, { concludes: true, hasQueuedContexts: false })
    turns.closeStep(ref)
    expect(types(turns.leave(ref, quiet))).toEqual(['step/end', 'turn/end'])
    const again = turns.enter({ calls: 1 })
    expect(again.ref.turn).toBe(2)
    expect(turns.leave(again.ref, { concludes: true, hasQueuedContexts: true })).toEqual([])
    const last = turns.enter({ calls: 1 }, { hasQueuedContexts: true })
    expect(last.ref).toEqual({ turn: 2, step: 2 })
    expect(turns.leave(last.ref, quiet)).toEqual([])
    expect(turns.state.isOpen).toBe(true)
  })

  it('a step that begins with queued contexts decides for itself, also after a named step that concluded [core-24.2]', () => {
    const concluded = { concludes: true, hasQueuedContexts: true }
    const [queued, plain] = [new Turns(), new Turns()]
    for (const turns of [queued, plain]) turns.leave(turns.enter({ step: 1, calls: 1 }).ref, concluded)
    const more = queued.enter({ step: 2, calls: 1 }, { hasQueuedContexts: true })
    expect(types(more.events)).toEqual(['step/end', 'step/start'])
    expect(queued.leave(more.ref, quiet)).toEqual([])
    // Without a context the turn was over; the step that came nevertheless is the last.
    const late = plain.enter({ step: 2, calls: 1 })
    expect(types(plain.leave(late.ref, quiet))).toEqual(['step/end', 'turn/end'])
  })

  it('contexts that a step takes beside running calls keep the turn open, too', () => {
    const turns = new Turns()
    const [a, b] = [turns.enter({ calls: 1 }), turns.enter({ calls: 1 })]
    turns.leave(a.ref, { concludes: true, hasQueuedContexts: true })
    const c = turns.enter({ calls: 1 }, { hasQueuedContexts: true })
    expect([turns.leave(b.ref, quiet), turns.leave(c.ref, quiet)]).toEqual([[], []])
    expect(turns.state.isOpen).toBe(true)
  })

  it('an error that ends a turn has a code [core-30.unknown-turn-end]', () => {
    const turns = new Turns()
    turns.leave(turns.enter({ calls: 1 }).ref, quiet)
    expect(turns.endTurn('error', 'the model')).toEqual([
      { type: 'turn/end', data: { turn: 1, reason: { kind: 'error', cause: 'the model', code: 'UNKNOWN' } } }
    ])
  })

  it('a concluding call waits with the end of the turn for calls of other steps', () => {
    const turns = new Turns()
    const a = turns.enter({ calls: 1 })
    const b = turns.enter({ calls: 1 })
    expect(turns.leave(a.ref, { concludes: true, hasQueuedContexts: false })).toEqual([])
    expect(types(turns.leave(b.ref, quiet))).toEqual(['turn/end'])
  })

  it('ending a turn ends its open steps, and refuses while calls run', () => {
    const turns = new Turns()
    const { ref } = turns.enter({ step: 1, calls: 1 })
    expect(code(() => turns.endTurn('aborted'))).toBe('TURN_BUSY')
    turns.leave(ref, quiet)
    expect(turns.endTurn('aborted', 'user')).toEqual([
      { type: 'step/end', data: { turn: 1, step: 1 } },
      { type: 'turn/end', data: { turn: 1, reason: { kind: 'aborted', cause: 'user' } } }
    ])
    expect(types(turns.enter({ calls: 1 }).events)).toEqual(['turn/start'])
  })

  it('goes on from stored state: an open turn keeps counting, a closed one is followed by the next', () => {
    const open = new Turns({ turn: 4, isOpen: true, lastStep: 7 })
    expect(open.enter({ calls: 1 })).toMatchObject({ ref: { turn: 4, step: 8 }, events: [] })
    const closed = new Turns({ turn: 4, isOpen: false, lastStep: 7 })
    expect(closed.enter({ turn: 5, calls: 1 }).ref).toEqual({ turn: 5, step: 1 })
  })
})
