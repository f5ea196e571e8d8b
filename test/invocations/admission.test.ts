import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { RequestError } from '../../server/errors.ts'
import { Admission, type AdmissionLimits } from '../../server/invocations/admission.ts'
import type { Asker } from '../../server/invocations/limits/meters.ts'
import type { Slot } from '../../server/invocations/slot.ts'
import { ScopeTree } from '../../server/scopes/scope-tree.ts'
import { isPending } from '../helpers/pipeline-fixture.ts'

const limits: AdmissionLimits = { maxConcurrent: 3, maxConcurrentPerScope: 2, maxQueued: 2, queueTimeoutMs: 60_000 }
const never = new AbortController().signal
const tree = new ScopeTree()
const at = (id: string): Asker => ({ scope: tree.get(id) ?? tree.create(id) })

const refusal = (run: () => unknown): RequestError => {
  try {
    run()
  } catch (error) {
    if (error instanceof RequestError) return error
    throw error
  }
  throw new Error('it was admitted')
}

describe('admission (reliability.md §3.1)', () => {
  it('holds places up to both limits; who waits goes on in order, past those whose scope is at its limit', async () => {
    const admission = new Admission(limits)
    const [a1, a2, a3, b1, b2] = ['a', 'a', 'a', 'b', 'b'].map((scope) => admission.request(at(scope))) as [
      Slot,
      Slot,
      Slot,
      Slot,
      Slot
    ]
    expect([a1, a2, a3, b1, b2].map(({ isHeld }) => isHeld)).toEqual([true, true, false, true, false])
    const waits = [a3.wait(never), b2.wait(never)]
    b1.release()
    await waits[1]
    expect([a3.isHeld, b2.isHeld]).toEqual([false, true])
    a1.release()
    await waits[0]
    expect(a3.isHeld).toBe(true)
  })

  it('a full line refuses by the limit that is in the way', () => {
    const admission = new Admission(limits)
    for (const scope of ['a', 'a', 'a', 'b', 'b']) admission.request(at(scope))
    const own = refusal(() => admission.request(at('a')))
    expect([own.code, own.details]).toEqual(['RATE_LIMITED', { limit: 'calls.maxConcurrentPerScope', value: 2 }])
    const common = refusal(() => admission.request(at('c')))
    expect([common.code, common.details]).toEqual(['OVERLOADED', { limit: 'calls.maxConcurrent', value: 3 }])
  })

  it('waiting ends with an abort, without a place, or with the time', async () => {
    const admission = new Admission({ ...limits, maxConcurrent: 1, queueTimeoutMs: 5 })
    const held = admission.request(at('a'))
    const controller = new AbortController()
    const gone = admission.request(at('a'))
    const wait = gone.wait(controller.signal)
    controller.abort()
    await wait
    expect(gone.isHeld).toBe(false)
    await gone.wait(controller.signal)
    const late = admission.request(at('a'))
    await expect(late.wait(never)).rejects.toMatchObject({ code: 'OVERLOADED' })
    held.release()
    for (const slot of [gone, late]) {
      expect(slot.isHeld).toBe(false)
      slot.release()
    }
    await held.wait(controller.signal)
    expect(admission.request(at('a')).isHeld).toBe(true)
  })

  it('a paused request gives its place to others, and goes on before those who have not begun', async () => {
    const admission = new Admission({ ...limits, maxConcurrent: 1 })
    const first = admission.request(at('a'))
    const second = admission.request(at('b'))
    const third = admission.request(at('c'))
    const comeBack = first.pause()
    await second.wait(never)
    comeBack()
    comeBack()
    const resumed = first.resume(never)
    expect(await isPending(resumed)).toBe(true)
    second.release()
    await resumed
    expect([first.isHeld, third.isHeld]).toEqual([true, false])
    await first.resume(never)
    first.release()
    expect(third.isHeld).toBe(true)
  })

  it('a place under which several wait for people is taken again when none does; those who are back do not wait for the others', async () => {
    const admission = new Admission({ ...limits, maxConcurrent: 1 })
    const batch = admission.request(at('a'))
    const other = admission.request(at('b'))
    const [one, two] = [batch.pause(), batch.pause()]
    expect(other.isHeld).toBe(true)
    one()
    await batch.resume(never)
    two()
    const resumed = [batch.resume(never), batch.resume(never)]
    expect(await isPending(Promise.race(resumed))).toBe(true)
    // Whoever is in line for the place has no need of it while another asks again.
    const again = batch.pause()
    await Promise.all(resumed)
    other.release()
    expect(batch.isHeld).toBe(false)
    again()
    await batch.resume(never)
    expect(batch.isHeld).toBe(true)
  })

  it('a place that several wait for lets all of them go on', async () => {
    const admission = new Admission({ ...limits, maxConcurrent: 1 })
    const batch = admission.request(at('a'))
    const backs = [batch.pause(), batch.pause()]
    const other = admission.request(at('b'))
    for (const back of backs) back()
    const controller = new AbortController()
    const resumed = [batch.resume(never), batch.resume(controller.signal), batch.resume(never)]
    controller.abort()
    await resumed[1]
    expect(await isPending(Promise.race([resumed[0], resumed[2]]))).toBe(true)
    other.release()
    await Promise.all(resumed)
    expect(batch.isHeld).toBe(true)
  })

  it('a paused request that is aborted goes on without a place, and its release frees nothing twice', async () => {
    const admission = new Admission({ ...limits, maxConcurrent: 1 })
    const first = admission.request(at('a'))
    first.pause()()
    const second = admission.request(at('a'))
    const controller = new AbortController()
    const resumed = first.resume(controller.signal)
    controller.abort()
    await resumed
    first.release()
    expect(admission.request(at('a')).isHeld).toBe(false)
    second.release()
    expect(admission.readmit(at('a')).isHeld).toBe(false)
  })

  it('model: the limits hold, and nobody waits while there is room', () => {
    const step = fc.record({
      scope: fc.constantFrom('a', 'b', 'c'),
      what: fc.constantFrom('request', 'release', 'pause')
    })
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const admission = new Admission({ ...limits, maxQueued: 100 })
        const slots: Slot[] = []
        for (const [index, { scope, what }] of steps.entries()) {
          if (what === 'request') slots.push(admission.request(at(scope)))
          else slots[index % Math.max(1, slots.length)]?.[what]()
          const held = slots.filter(({ isHeld }) => isHeld)
          expect(held.length).toBeLessThanOrEqual(3)
          for (const each of ['a', 'b', 'c']) {
            expect(held.filter((slot) => slot.asker.scope.id === each).length).toBeLessThanOrEqual(2)
          }
        }
        for (const slot of slots) slot.release()
        expect(['a', 'a', 'b'].map((scope) => admission.request(at(scope)).isHeld)).toEqual([true, true, true])
      })
    )
  })
})
