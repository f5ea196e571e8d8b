import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { SilenceWatch } from '../../server/processes/silence-watch.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

function open() {
  const [ask, onSilence] = [vi.fn(), vi.fn()]
  return { ask, onSilence, watch: new SilenceWatch({ maxSilenceMs: 10_000, ask, onSilence }) }
}

it('asks, and tells once of a process that says nothing for so long', () => {
  const { watch, ask, onSilence } = open()
  watch.start()
  watch.start()
  vi.advanceTimersByTime(10_000)
  expect([ask.mock.calls.length, onSilence.mock.calls.length]).toEqual([10, 0])
  vi.advanceTimersByTime(60_000)
  expect(onSilence.mock.calls).toEqual([[new Error('it did not answer for 10 s')]])
})

it('counts anew from each word, and only while it is on', () => {
  const { watch, onSilence } = open()
  watch.start()
  for (let words = 0; words < 5; words++) {
    vi.advanceTimersByTime(9_000)
    watch.heard()
  }
  watch.stop()
  vi.advanceTimersByTime(60_000)
  watch.start()
  vi.advanceTimersByTime(9_000)
  expect(onSilence).not.toHaveBeenCalled()
})
