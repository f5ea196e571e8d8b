import { describe, expect, it } from 'vitest'
import { RequestError } from '../../server/errors.ts'
import { Tickets } from '../../server/auth/tickets.ts'

const principal = (tokenId: string) => ({ tokenId, label: '', role: 'observer', scope: 'a' }) as const

describe('Tickets', () => {
  it('redeem once, and only before they expire', () => {
    let now = 0
    const tickets = new Tickets({ ttlMs: 30_000, maxPerToken: 9, now: () => now })
    const [first, second] = [tickets.issue(principal('t')), tickets.issue(principal('t'))]
    expect(first.expiresInMs).toBe(30_000)
    now = 29_999
    expect(tickets.redeem(first.ticket)).toEqual(principal('t'))
    expect(tickets.redeem(first.ticket)).toBeUndefined()
    now = 30_000
    expect(tickets.redeem(second.ticket)).toBeUndefined()
  })

  it('are limited per token, and an expired or used one makes room', () => {
    let now = 0
    const tickets = new Tickets({ ttlMs: 10, maxPerToken: 2, now: () => now })
    const { ticket } = tickets.issue(principal('t'))
    tickets.issue(principal('t'))
    expect(() => tickets.issue(principal('t'))).toThrow(RequestError)
    expect(tickets.issue(principal('other'))).toBeDefined()
    tickets.redeem(ticket)
    tickets.issue(principal('t'))
    expect(() => tickets.issue(principal('t'))).toThrow(RequestError)
    now = 10
    expect(tickets.issue(principal('t'))).toBeDefined()
  })

  it('do not redeem what is none', () => {
    const tickets = new Tickets({ ttlMs: 10, maxPerToken: 2, now: () => 0 })
    const { ticket } = tickets.issue(principal('t'))
    for (const text of ['', ticket.slice(1), `${ticket}=`, '__proto__']) expect(tickets.redeem(text)).toBeUndefined()
  })
})
