import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { strikeOut } from '../../server/json/strike-out.ts'

const struck = (value: unknown, ...secrets: string[]): unknown =>
  JSON.parse(strikeOut(secrets)(JSON.stringify(value))) as unknown

describe('strikeOut (api.md §9)', () => {
  it('strikes a secret out of strings and keys, wherever it stands in them', () => {
    expect(struck({ 'a hunter22x b': ['hunter22x', 'ahunter22xhunter22x', 'hunter22'] }, 'hunter22x')).toEqual({
      'a [secret] b': ['[secret]', 'a[secret][secret]', 'hunter22']
    })
  })

  it('gives text without a secret back as it is', () => {
    const text = '{"a": 1.50}'
    expect(strikeOut(['hunter22x'])(text)).toBe(text)
  })

  it('leaves numbers and what is no string alone', () => {
    expect(struck({ n: 1234567890, s: '1234567890' }, '1234567890')).toEqual({ n: 1234567890, s: '[secret]' })
  })

  it('finds no secret from the middle of an escape on', () => {
    expect(struck('\nabcdefgh', 'nabcdefgh')).toBe('\nabcdefgh')
    expect(struck('\u0001abcdefg', '0001abcdefg')).toBe('\u0001abcdefg')
    expect(struck('\\nabcdefgh', 'nabcdefgh')).toBe('\\[secret]')
  })

  it('finds it in JSON text inside a string, twice over', () => {
    const secret = 'pass"word\\1\n'
    const inner = JSON.stringify({ token: secret })
    const outer = JSON.stringify({ arguments: inner })
    for (const value of [secret, inner, outer]) {
      expect(JSON.stringify(struck([value], secret))).not.toContain('word')
    }
  })

  it('the longest of two that begin alike', () => {
    expect(struck('sesame-open-wide', 'sesame-open', 'sesame-open-wide')).toBe('[secret]')
  })

  it('leaves JSON behind, without the secret, whatever both are', () => {
    fc.assert(
      fc.property(
        fc.string({ minLength: 1, unit: 'binary' }),
        fc.jsonValue(),
        fc.string({ unit: 'binary' }),
        (secret, value, more) => {
          fc.pre(!'[secret]'.includes(secret))
          const given = [value, `${more}${secret}${more}`]
          const [, at] = struck(given, secret) as [unknown, string]
          expect(at.split('[secret]').some((part) => part.includes(secret))).toBe(false)
        }
      )
    )
  })
})
