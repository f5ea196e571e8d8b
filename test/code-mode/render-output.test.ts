import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { renderRunOutput, type RunOutput } from '../../server/code-mode/render-output.ts'
import { indentedJson } from '../../server/json/indented.ts'
import type { JsonValue } from '../../server/json/lossless.ts'

const textOf = (output: RunOutput): string => {
  const content = renderRunOutput(output)
  expect(content).toHaveLength(1)
  expect(content[0]!.type).toBe('text')
  return (content[0] as { text: string }).text
}

const placeholder = '(run_code completed with no output)'

describe('what a model sees of a successful run (code-mode.md §2.3)', () => {
  it.each<[RunOutput, string]>([
    [{ logs: ['p'], result: 'r' }, 'p\nr'],
    [{ logs: [], result: { n: 42, ok: true } }, '{\n  "n": 42,\n  "ok": true\n}'],
    [{ logs: [], result: [] }, '[]'],
    [{ logs: [], result: {} }, '{}'],
    [{ logs: [], result: null }, 'null'],
    [{ logs: [], result: false }, 'false'],
    [{ logs: [], result: 0 }, '0'],
    [{ logs: [] }, placeholder],
    [{ logs: [], result: '' }, placeholder],
    [{ logs: [''] }, placeholder],
    [{ logs: ['a', '', 'b'] }, 'a\n\nb'],
    [{ logs: ['', ''], result: 1 }, '\n\n1'],
    [{ logs: [''], result: 'x' }, 'x'],
    [{ logs: ['a'], result: '' }, 'a']
  ])('C009 %j', (output, text) => {
    expect(textOf(output)).toBe(text)
  })
})

describe('JSON text with bounded indentation (code-mode.md §2.4)', () => {
  it('is compact from the sixth level on', () => {
    expect(indentedJson({ a: { b: { c: { d: { e: { f: [1, 2] } } } } } })).toBe(
      [
        '{',
        '  "a": {',
        '    "b": {',
        '      "c": {',
        '        "d": {',
        '          "e": {"f":[1,2]}',
        '        }',
        '      }',
        '    }',
        '  }',
        '}'
      ].join('\n')
    )
  })

  it('writes 5,001 nested arrays in 10,062 characters', () => {
    let value: JsonValue = []
    for (let level = 0; level < 5000; level += 1) value = [value]
    expect(indentedJson(value)).toHaveLength(10_062)
  })

  it('writes what JSON.stringify writes, apart from white space', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 8 }), (value) => {
        const json = JSON.parse(JSON.stringify(value)) as JsonValue
        const text = indentedJson(json)
        expect(JSON.stringify(JSON.parse(text))).toBe(JSON.stringify(json))
        expect(/^ {11}/m.test(text)).toBe(false)
      })
    )
  })

  it('keeps own members of any name', () => {
    expect(indentedJson(JSON.parse('{"__proto__":1,"toString":[{}]}') as JsonValue)).toBe(
      '{\n  "__proto__": 1,\n  "toString": [\n    {}\n  ]\n}'
    )
  })
})
