import { describe, expect, it } from 'vitest'
import { parseCall } from '../../server/invocations/plan.ts'

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
