import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isLossy, losslessText, tooLong } from '../../../server/code-runtime/world/lossless-text.js'
import { isLosslessJson } from '../../../server/json/lossless.ts'
import { depthOf, jsonValue, nest } from '../../helpers/json-arbitraries.ts'

const text = (value: unknown) => losslessText(value, Infinity)

function thrownBy(body: () => unknown): unknown {
  try {
    return [body()]
  } catch (error) {
    return error
  }
}

// oxlint-disable-next-line typescript/no-implied-eval -- the cases are written as a program writes them
const evaluate = (expression: string): unknown => new Function(`return (${expression})`)()

const rejectedCompletions = [
  ...[
    'NaN',
    'Infinity',
    '-0',
    '1n',
    'Symbol()',
    '() => 1',
    'new Date(0)',
    'new Map()',
    'new (class A { x = 1 })()',
    '[1, , 2]'
  ],
  ...['{ a: undefined }', '[undefined]', '(() => { const a = {}; a.a = a; return a })()', "{ [Symbol('a')]: 1 }"],
  ...["Object.defineProperty({}, 'a', { value: 1 })", "Buffer.from('a')", 'new Uint8Array(1)', "new String('x')"],
  ...[
    'Object.assign([1], { a: 1 })',
    '{ get a() { throw 1 } }',
    '{ p: Promise.resolve(1) }',
    '{ toJSON() { return 1 } }'
  ],
  ...[
    'new (class extends Array {})()',
    '{ __proto__: { constructor: { name: "Object" } } }',
    'new Error("e")',
    'new Proxy({}, { ownKeys() { throw 1 } })'
  ]
]

describe('JSON text of a program’s value (§9)', () => {
  it('is that of JSON.stringify for every JSON value', () => {
    fc.assert(
      fc.property(jsonValue, (value) => {
        expect(text(value)).toBe(JSON.stringify(value))
      })
    )
  })

  it('agrees with the server on what is lossless', () => {
    fc.assert(
      fc.property(
        fc.anything({
          withBigInt: true,
          withDate: true,
          withMap: true,
          withNullPrototype: true,
          withSparseArray: true,
          withTypedArray: true
        }),
        (value) => {
          let isAccepted = true
          try {
            text(value)
          } catch (error) {
            expect(isLossy(error)).toBe(true)
            isAccepted = false
          }
          expect(isAccepted).toBe(isLosslessJson(value))
        }
      )
    )
  })

  it.each(rejectedCompletions)('C023 refuses %s', (expression) => {
    expect(isLossy(thrownBy(() => text(evaluate(expression))))).toBe(true)
  })

  it('knows no depth', () => {
    expect(depthOf(JSON.parse(text(nest(200_000, 'leaf'))))).toBe(200_000)
    expect(text(nest(5_000, 1, 'k')).length).toBe(5_000 * 6 + 1)
  })

  it('stops at a length that nobody would take', () => {
    for (const value of ['x'.repeat(11), ['x'.repeat(11)], Array.from({ length: 20 }, () => 1)]) {
      expect(thrownBy(() => losslessText(value, 10))).toBe(tooLong)
    }
    expect(losslessText('12345678', 10)).toBe('"12345678"')
  })
})
