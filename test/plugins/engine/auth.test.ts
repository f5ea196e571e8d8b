import Fastify from 'fastify'
import { describe, expect, it } from 'vitest'
import { auth } from '../../../plugins/engine/auth.ts'
import { allowAddresses } from '../../../server/auth/addresses.ts'
import { Tickets } from '../../../server/auth/tickets.ts'
import { AccessTokens } from '../../../server/auth/tokens.ts'
import { openMemoryLog } from '../../../server/event-log/memory-log.ts'
import { startWireApp } from '../../helpers/wire-app.ts'

describe('auth', () => {
  it('a route that states no action does not register, whoever adds it', async () => {
    const app = Fastify()
    await app.register(auth, {
      tokens: await AccessTokens.open(openMemoryLog()),
      tickets: new Tickets({ ttlMs: 1, maxPerToken: 1 }),
      addresses: allowAddresses({ host: '127.0.0.1', listedHosts: [], listedOrigins: [] })
    })
    expect(() => app.get('/open', async () => 'x')).toThrow('GET /open')
    await app.close()
  })

  it('takes a token in any case of the scheme, and nothing like one', async () => {
    const { call, admin } = await startWireApp()
    for (const authorization of [`Bearer ${admin}`, `bearer ${admin}`, `BEARER  ${admin}`]) {
      expect([authorization, (await call('/tokens', { headers: { authorization } })).status]).toEqual([
        authorization,
        200
      ])
    }
    for (const authorization of [
      '',
      admin,
      `Bearer${admin}`,
      `Basic ${admin}`,
      `Basic ${Buffer.from(`admin:${admin}`).toString('base64')}`,
      `Bearer ${admin} x`,
      `Bearer ${admin},Bearer ${admin}`,
      `Bearer "${admin}"`,
      'Bearer '
    ]) {
      const answer = await call('/tokens', { headers: { authorization } })
      expect([authorization, answer.status, answer.headers.get('www-authenticate')]).toEqual([
        authorization,
        401,
        'Bearer'
      ])
    }
  })

  it('a token in the query is 400 under any name, even beside a good header, and is not logged', async () => {
    const lines: string[] = []
    const { call, admin } = await startWireApp({ stream: { write: (line) => void lines.push(line) } })
    for (const query of [
      'token=x',
      'TOKEN=x',
      'access_token=x',
      'access-token=x',
      'apiKey=x',
      'a=1&api_key=x',
      'authorization=x',
      '%74oken=x',
      'ticket=x',
      'token',
      `anything=${admin}`,
      `q=${encodeURIComponent(admin)}`,
      admin,
      `${admin}=1`,
      `q=Bearer%20${admin}`
    ]) {
      for (const path of ['/tokens', '/nowhere']) {
        const answer = await call(`${path}?${query}`)
        expect([query, answer.status, ((await answer.json()) as { error: { code: string } }).error.code]).toEqual([
          query,
          400,
          'TOKEN_IN_URL'
        ])
      }
    }
    expect((await call('/tokens?limit=5')).status).toBe(200)
    const log = lines.join('')
    expect(log).toContain('"/tokens"')
    expect(log).not.toContain(admin)
    expect(log).not.toContain('oken=x')
  })
})
