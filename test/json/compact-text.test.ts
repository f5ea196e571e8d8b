import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { compactText } from '../../server/json/compact-text.ts'
import { jsonKey, jsonValue } from '../helpers/json-arbitraries.ts'

describe('compactText (api.md §2: keys in the order received)', () => {
  it.each([
    ['{"b": 1, "10": 2, "2": [ { "9": [] , "a":{ }, "8" :"" } ]}', '{"b":1,"10":2,"2":[{"9":[],"a":{},"8":""}]}'],
    [' { "\\u0031" : "\\u0041\\/\\ud83d\\ude00\\u0007" }\n', '{"1":"A/😀\\u0007"}'],
    ['{"b":1e2,"1":1.50,"0":[true ,false,null, -3]}', '{"b":100,"1":1.5,"0":[true,false,null,-3]}'],
    ['{"b":1,"1":{"x":1},"b":2,"\\u0031":[3]}', '{"b":2,"1":[3]}'],
    ['{"__proto__":1,"1":", ]} \\" : {","":0}', '{"__proto__":1,"1":", ]} \\" : {","":0}'],
    ['"a\\\\"', '"a\\\\"'],
    ['\t7\r\n', '7']
  ])('%s', (text, expected) => {
    expect(compactText(text)).toBe(expected)
  })

  it('of what JSON.stringify has written it takes the spaces alone', () => {
    fc.assert(
      fc.property(jsonValue, fc.constantFrom(0, 1, '\t'), (value, indent) => {
        expect(compactText(JSON.stringify(value, null, indent))).toBe(JSON.stringify(value))
      })
    )
  })

  it('keeps the order of any keys', () => {
    fc.assert(
      fc.property(fc.uniqueArray(fc.oneof(fc.nat().map(String), jsonKey)), (keys) => {
        const members = keys.map((key, index) => `${JSON.stringify(key)}:${index}`).join()
        expect(compactText(`{ ${members}\n}`)).toBe(`{${members}}`)
      })
    )
  })

  it('bears any depth and length', () => {
    const deep = `${'{"1":['.repeat(50_000)}${']}'.repeat(50_000)}`
    expect(compactText(deep)).toBe(deep)
    const long = `{"1":"${'\\"'.repeat(4_000_000)}"}`
    expect(compactText(long)).toBe(long)
  })
})
