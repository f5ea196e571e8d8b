import fc from 'fast-check'
import { expect, it } from 'vitest'
import { readMark, treeMark } from '../../../server/backends/subprocess/tree-mark.js'

const upTo = (bits: number) => fc.integer({ min: 0, max: 2 ** bits - 1 })

it('a mark tells directory and server, and fits a signed limit', () => {
  fc.assert(
    fc.property(upTo(18), upTo(22), upTo(30), (directory, server, tree) => {
      const mark = treeMark({ directory, server, tree })
      expect(readMark(mark)).toEqual({ directory, server })
      expect(BigInt(mark) < 2n ** 63n).toBe(true)
    })
  )
})

it('tells trees apart', () => {
  const marks = [0, 1, 2 ** 22 - 1].map((tree) => treeMark({ directory: 1, server: 2, tree }))
  expect(new Set(marks).size).toBe(3)
})

it.each([
  '',
  'unlimited',
  '200000',
  '4611686018427387903',
  '9223372036854775808',
  '9999999999999999999',
  '-4611686018427387904',
  'x'
])('%j is no mark', (text) => {
  expect(readMark(text)).toBeUndefined()
})
