import { describe, expect, it } from 'vitest'
import { fuse } from '../../server/pipeline/cancellation.ts'
import { failureFrom, messageOf } from '../../server/pipeline/result.ts'
import { TestError } from '../helpers/pipeline-fixture.ts'

describe('the failure of a throw (core.md §12.7)', () => {
  const hostile = new Proxy(
    {},
    {
      get() {
        throw new Error('no')
      },
      has() {
        throw new Error('no')
      },
      getPrototypeOf() {
        throw new Error('no')
      }
    }
  )

  it('is total [core-12.7.hostile]', () => {
    expect(failureFrom(hostile).error).toEqual({ message: expect.any(String) })
    expect(messageOf(Object.create(null))).toEqual(expect.any(String))
    expect(messageOf(Symbol('s'))).toBe('Symbol(s)')
    expect(messageOf(null)).toBe('null')
    expect(messageOf({ message: 5 })).toBe('[object Object]')
  })

  it('has info only of a coded error with proper name and code [core-12.7.info] [core-30.coded]', () => {
    expect(failureFrom(new TestError('C', 'm')).error).toEqual({ message: 'm', info: { name: 'TestError', code: 'C' } })
    const abort = new DOMException('stop', 'AbortError')
    expect(failureFrom(abort).error).toEqual({ message: 'stop' })
    expect(failureFrom(Object.assign(new Error('m'), { code: 'ENOENT' })).error).toEqual({ message: 'm' })
    expect(failureFrom(new TestError(1 as never, 'm')).error).toEqual({ message: 'm' })
  })
})

describe('fused signals (core.md §12.3)', () => {
  it('the same signal stays itself', () => {
    const { signal } = new AbortController()
    const fused = fuse(signal, signal)
    expect(fused.signal).toBe(signal)
    fused.release()
  })

  it('follows whichever aborts first, with its reason [core-12.3.fused]', () => {
    for (const which of [0, 1]) {
      const sources = [new AbortController(), new AbortController()] as const
      const { signal } = fuse(sources[0].signal, sources[1].signal)
      sources[which]!.abort(`source ${which}`)
      sources[1 - which]!.abort('too late')
      expect(signal.reason).toBe(`source ${which}`)
    }
  })

  it('takes the first one’s reason when both have aborted, the second’s when only that has [core-12.3.fused]', () => {
    expect(fuse(AbortSignal.abort('first'), AbortSignal.abort('second')).signal.reason).toBe('first')
    expect(fuse(new AbortController().signal, AbortSignal.abort('second')).signal.reason).toBe('second')
  })

  it('is cut off by release', () => {
    const source = new AbortController()
    const fused = fuse(source.signal, new AbortController().signal)
    fused.release()
    source.abort()
    expect(fused.signal.aborted).toBe(false)
  })
})
