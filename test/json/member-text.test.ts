import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { itemTexts, memberText } from '../../server/json/member-text.ts'

describe('memberText (api.md §2: arguments as received)', () => {
  it.each([
    ['{"arguments":{"x":-0, "y":1e400}}', ['arguments'], '{"x":-0, "y":1e400}'],
    ['{"calls":[{},{"arguments": [1, "a]}\\"" ,{}] }]}', ['calls', 1, 'arguments'], '[1, "a]}\\"" ,{}]'],
    ['{"a":1,"a":2.50}', ['a'], '2.50'],
    ['{"\\u0061":true}', ['a'], 'true'],
    [' [ 9007199254740993 ] ', [0], '9007199254740993'],
    ['{"a":[]}', ['a', 0], undefined],
    ['{"a":1}', ['a', 'b'], undefined],
    ['{}', ['__proto__'], undefined]
  ] as const)('%s at %j', (text, path, expected) => {
    expect(memberText(text, path)).toBe(expected)
  })

  it('finds every member as it was written, however deep', () => {
    fc.assert(
      fc.property(fc.array(fc.oneof(fc.string(), fc.nat(3)), { maxLength: 6 }), fc.jsonValue(), (path, value) => {
        let text = JSON.stringify(value)
        for (const step of path.toReversed()) {
          text =
            typeof step === 'number' ? `[${'0, '.repeat(step)}${text} , 1]` : `{ ${JSON.stringify(step)} :${text} }`
        }
        expect(memberText(text, path)).toBe(JSON.stringify(value))
      })
    )
    const deep = `${'['.repeat(50_000)}${']'.repeat(50_000)}`
    expect(memberText(`{"a":${deep}}`, ['a'])).toBe(deep)
  })
})

describe('itemTexts', () => {
  it.each([
    [' [ 1 , {"a": [2, "]"]},"," ] ', ['1', '{"a": [2, "]"]}', '","']],
    ['[[],[[]]]', ['[]', '[[]]']],
    ['[]', []],
    ['7', []]
  ])('%s', (text, expected) => {
    expect(itemTexts(text)).toEqual(expected)
  })
})
