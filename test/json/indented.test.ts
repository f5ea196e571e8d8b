import { describe, expect, it } from 'vitest'
import { indentedJson } from '../../server/json/indented.ts'

describe('indentedJson (code-mode.md §2.4)', () => {
  it('indents by two a level, and leaves empty containers and scalars on their line', () => {
    expect(indentedJson({ a: [1, 'x', {}, []], b: { c: null } })).toBe(
      '{\n  "a": [\n    1,\n    "x",\n    {},\n    []\n  ],\n  "b": {\n    "c": null\n  }\n}'
    )
    expect([indentedJson([]), indentedJson({}), indentedJson('x'), indentedJson(null)]).toEqual([
      '[]',
      '{}',
      '"x"',
      'null'
    ])
  })

  it('is compact below ten blanks, however deep it goes on', () => {
    let deep: any = 1
    for (let level = 0; level < 5_000; level += 1) deep = [deep]
    const text = indentedJson(deep)
    expect(text.split('\n').map((line) => /^ */.exec(line)?.[0].length)).toEqual([0, 2, 4, 6, 8, 10, 8, 6, 4, 2, 0])
    expect(JSON.parse(indentedJson([[[[[[{ a: 1 }]]]]]]))).toEqual([[[[[[{ a: 1 }]]]]]])
  })
})
