import { createHash, randomBytes } from 'node:crypto'
import { expect, it } from 'vitest'
import { HomeApp } from '../helpers/home-app.ts'

it('a guessed token learns nothing: whatever is wrong with it, the answer is the same, and the right one still works', async () => {
  const server = await HomeApp.start()
  const right = await server.tokenFor('agent', 'global')
  const [, id = '', secret = ''] = /^tw_([^_]+)_(.+)$/.exec(right) ?? []
  // As long as a digest of nothing less: nobody gets there by trying.
  expect(Buffer.from(secret, 'base64url').length).toBe(32)
  const flipped = `${secret.slice(0, -2)}${secret.at(-2) === 'A' ? 'B' : 'A'}${secret.at(-1)}`
  const guesses = [
    `tw_${id}_${flipped}`,
    `tw_${id}_${secret.slice(0, -1)}`,
    `tw_${id}_${secret}A`,
    `tw_${id}_`,
    `tw_${id}`,
    `tw_${'0'.repeat(id.length)}_${secret}`,
    `tw_constructor_${secret}`,
    `tw___proto___${secret}`,
    `tw_${id}_${createHash('sha256').update(right).digest('hex')}`,
    right.toUpperCase(),
    right.slice(3),
    id,
    secret,
    'x',
    ...Array.from({ length: 200 }, () => `tw_${id}_${randomBytes(32).toString('base64url')}`)
  ]
  const seen = new Set<string>()
  for (const guess of guesses) {
    const { status, body, headers } = await server.ask('POST', '/invoke', { name: 'x' }, { token: guess })
    const { requestId: _, ...rest } = body
    seen.add(JSON.stringify([status, rest, headers.get('www-authenticate')]))
  }
  expect([...seen].map((answer) => (JSON.parse(answer) as [number])[0])).toEqual([401])
  for (const authorization of ['Basic eA==', 'Bearer', 'Bearer  ', `bearer${right}`, `Bearer ${right} ${right}`]) {
    const { status } = await server.ask('GET', '/tools', undefined, { headers: { authorization } })
    expect([authorization, status]).toEqual([authorization, 401])
  }
  expect((await server.ask('GET', '/tools', undefined, { token: right })).status).toBe(200)
})
