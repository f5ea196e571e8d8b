import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { publicName } from '../../server/mcp/names.ts'

const hash = (server: string, raw: string): string =>
  createHash('sha256').update(`${server}\0${raw}`).digest('hex').slice(0, 12)

describe('public names (backends.md §10, C73, F45) [core-6.2.mcp-name]', () => {
  it('a name that can stand as it is stands so; any other gets a hash', () => {
    expect(publicName('srv', 'greet')).toBe('mcp__srv__greet')
    expect(publicName('srv', 'admin.reset')).toBe(`mcp__srv__admin_reset_${hash('srv', 'admin.reset')}`)
    const whole = 'x'.repeat(64 - 'mcp__srv__'.length)
    expect(publicName('srv', whole)).toHaveLength(64)
    expect(publicName('srv', whole)).toBe(`mcp__srv__${whole}`)
    expect(publicName('srv', `${whole}x`)).toBe(`mcp__srv__${'x'.repeat(41)}_${hash('srv', `${whole}x`)}`)
    // As spelled, the two differ in what is replaced alone.
    expect(publicName('srv', 'a.b')).not.toBe(publicName('srv', 'a/b'))
  })

  it('is a tool name whatever the server says, and another one for another name', () => {
    const server = fc.stringMatching(/^[A-Za-z0-9_-]{1,32}$/)
    const raw = fc.string({ unit: 'binary', minLength: 1, maxLength: 100 })
    fc.assert(
      fc.property(server, raw, raw, (name, one, other) => {
        expect(publicName(name, one)).toMatch(/^mcp__[A-Za-z0-9_-]{1,59}$/)
        expect(publicName(name, one) === publicName(name, other)).toBe(one === other)
      })
    )
  })
})
