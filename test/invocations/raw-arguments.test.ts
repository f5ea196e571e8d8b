import { describe, expect, it } from 'vitest'
import { parseCall } from '../../server/invocations/plan.ts'
import { sentArguments, sentBatchArguments } from '../../server/invocations/sent-arguments.ts'
import type { JsonValue } from '../../server/json/lossless.ts'

describe('raw arguments (api.md §2, §8)', () => {
  it('C114 text that is no JSON is itself the arguments, and nothing is {}', () => {
    expect(parseCall({ name: 'x', rawArguments: 'not json' })).toMatchObject({ arguments: 'not json', raw: 'not json' })
    expect(parseCall({ name: 'x', rawArguments: '' })).toMatchObject({ arguments: {}, raw: '' })
  })

  it('text that nests deeper than a body may fails its call as not lossless, without a code', () => {
    const deep = `${'['.repeat(257)}${']'.repeat(257)}`
    const { argumentsError, raw } = parseCall({ name: 'x', rawArguments: deep })
    expect(argumentsError?.message).toContain('lossless JSON')
    expect(argumentsError).not.toHaveProperty('code')
    expect(raw).toBe(deep)
    expect(parseCall({ name: 'x', rawArguments: deep.slice(1, -1) }).argumentsError).toBeUndefined()
  })

  it('F37 an integer that a double does not hold fails its call by name and path', () => {
    const { argumentsError } = parseCall({ name: 'x', rawArguments: '{"a":[{"id":9007199254740993}]}' })
    expect(argumentsError).toMatchObject({ code: 'INVALID_ARGS', violations: [expect.stringContaining('"a[0].id"')] })
  })
})

describe('arguments (api.md §2)', () => {
  it('null is a value, and only what is absent is {}', () => {
    expect(parseCall({ name: 'x', arguments: null })).toMatchObject({ arguments: null, raw: 'null' })
    expect(parseCall({ name: 'x' })).toMatchObject({ arguments: {}, raw: '{}' })
  })

  it.each([{ callId: 'a\ud800', name: 'x' }, { callId: 'a\u0085', name: 'x' }, { name: '\udc00x' }])(
    'refuses an id or a name that the store would not give back: %j',
    (call) => {
      expect(() => parseCall(call)).toThrow(expect.objectContaining({ code: 'BAD_REQUEST' }))
      expect(parseCall({ callId: '😀', name: '😀' })).toMatchObject({ callId: '😀', name: '😀' })
    }
  )
})

describe('what tool/call stores of arguments (api.md §2)', () => {
  const stored = (text: string): string => {
    const body = `{"name":"x", "arguments": ${text} }`
    const { arguments: args } = JSON.parse(body) as { arguments: JsonValue }
    return parseCall({ name: 'x', arguments: args, sent: sentArguments(body, ['arguments']) }).raw
  }

  it.each([
    ['{ "b": 1, "a": "\\u0041" }', '{"b":1,"a":"A"}'],
    ['{ "b": 1, "2": "\\u0041", "1": {"0": [ ]} }', '{"b":1,"2":"A","1":{"0":[]}}'],
    ['[ { "x": 1, "0": 1.0 } ]', '[{"x":1,"0":1}]'],
    ['{ "a": 1, "1": 2, "a": 3 }', '{"a":3,"1":2}'],
    ['{ "q\\"1": 1, "a": 2 }', '{"q\\"1":1,"a":2}'],
    ['{ "1": -0, "a" : "\\u0041" }', '{ "1": -0, "a" : "\\u0041" }'],
    ['{ "1": 9007199254740993 }', '{ "1": 9007199254740993 }']
  ])('%s', (text, expected) => {
    expect(stored(text)).toBe(expected)
  })

  it('each call of a batch has its own text, and the order of keys makes no other call', () => {
    const body = '{"calls": [{"name":"x"}, {"arguments": {"a":1, "1": -0}}, {"arguments": {"a":1, "1": 2} } ]}'
    const { calls } = JSON.parse(body) as { calls: { arguments?: JsonValue }[] }
    const sent = sentBatchArguments(body)
    const parsed = calls.map((call, index) => parseCall({ name: 'x', ...call, sent: sent(index) }))
    expect(parsed.map(({ raw }) => raw)).toEqual(['{}', '{"a":1, "1": -0}', '{"a":1,"1":2}'])
    expect(parsed[2]?.argumentsHash).toBe(parseCall({ name: 'x', arguments: { 1: 2, a: 1 } }).argumentsHash)
  })

  it('the texts of a long batch are found in one pass', () => {
    const text = '{"arguments":{"a":-0,"pad":["","","","","","","",""]}}'
    const body = `{"calls":[${Array.from({ length: 1_000 }, () => text).join()},[${'[],'.repeat(1_000_000)}0]]}`
    const sent = sentBatchArguments(body)
    for (let index = 0; index < 1_000; index += 1) {
      expect(sent(index).text()).toBe('{"a":-0,"pad":["","","","","","","",""]}')
    }
  })
})
