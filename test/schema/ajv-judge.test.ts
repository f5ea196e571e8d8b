import { describe, expect, it } from 'vitest'
import type { Dialect, Program } from '../../server/schema/ajv-job.ts'
import { SchemaJudge } from '../../server/schema/ajv-judge.js'
import { linearRegex } from '../../server/schema/linear-regex.js'

const program = (schema: object, dialect: Dialect = '2020-12', patterns: Program['patterns'] = []): Program => {
  const text = JSON.stringify(schema)
  return { dialect, given: text, text, patterns }
}

/** What is wrong with a value. */
function violation(schema: object, value: unknown, dialect?: Dialect) {
  const answer = new SchemaJudge().answer({ key: 1, program: program(schema, dialect), value: JSON.stringify(value) })
  return answer.type === 'invalid' ? answer.violation : answer.type
}

// What tests of the thread cannot see from outside; the rest of its answers is proved there, over real messages.
describe('what the thread of schemas answers', () => {
  it('keeps what was used last, and says what it has forgotten', () => {
    const judge = new SchemaJudge(3 * 8 * 1024)
    const ask = (key: number) => judge.answer({ key, value: '1' }).type
    for (const key of [1, 2, 3]) judge.answer({ key, program: program({ type: 'string' }) })
    expect(ask(1)).toBe('invalid')
    judge.answer({ key: 4, program: program({}) })
    expect([1, 2, 3, 4].map(ask)).toEqual(['invalid', 'forgotten', 'invalid', 'valid'])
    // One that is larger than all there may be is kept until the next one comes.
    judge.answer({ key: 5, program: program({ description: 'x'.repeat(30_000) }) })
    expect([1, 3, 4, 5].map(ask)).toEqual(['forgotten', 'forgotten', 'forgotten', 'valid'])
    judge.answer({ key: 6, program: program({}) })
    expect([5, 6].map(ask)).toEqual(['forgotten', 'valid'])
  })

  it('does not keep what it refuses', () => {
    const judge = new SchemaJudge()
    expect(judge.answer({ key: 1, program: program({ type: 'strin' }) }).type).toBe('invalid')
    expect(judge.answer({ key: 1, value: '1' })).toEqual({ type: 'forgotten' })
    const bad = program({ pattern: '(?=a)' }, '2020-12', [{ steps: ['pattern'], pattern: '(?=a)' }])
    expect(judge.answer({ key: 2, program: bad })).toMatchObject({
      violation: { steps: ['pattern'], text: expect.stringContaining('is not supported: '), details: [] }
    })
  })

  it('compiles the changed text and holds the given one to its dialect', () => {
    const judge = new SchemaJudge()
    const changed = { dialect: 'draft-07', given: '{}', text: '{"type":"string"}', patterns: [] } as const
    expect(judge.answer({ key: 1, program: changed, value: '1' }).type).toBe('invalid')
    const wrong = { dialect: 'draft-07', given: '{"items":[1]}', text: '{}', patterns: [] } as const
    expect(judge.answer({ key: 2, program: wrong })).toMatchObject({
      violation: {
        steps: ['items'],
        details: expect.arrayContaining([expect.objectContaining({ steps: ['items', 0] })])
      }
    })
  })

  it('a promise is no answer', () => {
    expect(violation({ $async: true }, 1)).toEqual({ steps: [], text: 'does not match its schema', details: [] })
  })

  it('what throws on its way is a violation', () => {
    expect(violation({ $ref: '#' }, {})).toMatchObject({ text: expect.stringContaining('cannot be checked: ') })
    expect(violation({ $ref: '#/nowhere' }, {})).toMatchObject({ text: expect.stringContaining('does not compile: ') })
  })

  it('names members and items by the keys and indices of the value, and says what they must be', () => {
    const schema = {
      properties: {
        'a/b~': { items: { required: ['x'], properties: { 0: { const: 2 } }, additionalProperties: false } },
        list: { enum: [1, 'two'] }
      },
      unevaluatedProperties: false
    }
    expect(violation(schema, { 'a/b~': [{}] })).toEqual({
      steps: ['a/b~', 0, 'x'],
      text: 'is required',
      details: []
    })
    expect(violation(schema, { 'a/b~': [{ x: 1 }] })).toMatchObject({
      steps: ['a/b~', 0, 'x'],
      text: 'is not declared'
    })
    const member = { properties: { a: { items: { properties: { 0: { const: 2 } } } } } }
    expect(violation(member, { a: [1, { 0: 3 }] })).toMatchObject({ steps: ['a', 1, '0'], text: 'must be 2' })
    expect(violation(schema, { list: 3 })).toMatchObject({ steps: ['list'], text: 'must be one of [1,"two"]' })
    expect(violation(schema, { other: 3 })).toMatchObject({ steps: ['other'], text: 'is not declared' })
    expect(violation({ type: 'string' }, 1, 'draft-07')).toMatchObject({ steps: [], text: 'must be string' })
  })

  it('explains a union by its first branches, and cuts what is long', () => {
    const anyOf = Array.from({ length: 9 }, (_, n) => ({ const: n }))
    const found = violation({ anyOf }, 'a')
    expect(found).toMatchObject({ steps: [], text: 'must match a schema in anyOf' })
    expect(found).toHaveProperty(
      'details',
      [0, 1, 2, 3, 4].map((n) => ({ steps: [], text: `must be ${n}` }))
    )
    const long = violation({ const: 'x'.repeat(400) }, 1)
    expect(long).toHaveProperty('text', `must be "${'x'.repeat(291)}…`)
  })
})

it('a pattern is linear, and told apart from others by its text (reliability.md §0.8)', () => {
  const digits = linearRegex('^[0-9]+$')
  expect([digits.test('12'), digits.test('a')]).toEqual([true, false])
  expect(String(digits)).toBe('/^[0-9]+$/')
  expect(linearRegex('^(a|a)*$').test(`${'a'.repeat(20_000)}!`)).toBe(false)
  expect(() => linearRegex('(a)\\1')).toThrow(Error)
})
