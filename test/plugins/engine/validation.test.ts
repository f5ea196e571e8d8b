import { expect, it } from 'vitest'
import { HomeApp, outcome } from '../../helpers/home-app.ts'

it('a number in a URL that is beyond all numbers is none, whatever bounds it has', async () => {
  const app = await HomeApp.start()
  for (const value of ['1e999', '-1e999', 'Infinity']) {
    for (const path of [`/sessions?limit=${value}`, `/terminals?after=${value}`, `/calls/s/c?waitMs=${value}`]) {
      expect([path, outcome(await app.ask('GET', path))]).toEqual([path, '400 BAD_REQUEST'])
    }
  }
  const turn = await app.ask('POST', '/sessions/s/turns/1e999/end', {})
  expect(outcome(turn)).toBe('400 BAD_REQUEST')
  expect((await app.ask('GET', '/sessions?limit=1e2')).status).toBe(200)
})

it('a query that a route does not have is refused: what asks for a dry run is never run', async () => {
  const app = await HomeApp.start()
  const calls = [{ name: 'bash', arguments: { command: 'true', description: 'Nothing' } }]
  expect(outcome(await app.ask('POST', '/invoke/batch?dryRun=true', { calls }))).toBe('400 BAD_REQUEST')
  for (const [method, path] of [
    ['DELETE', '/scopes/nowhere?dryRun=true'],
    ['POST', '/tickets?scope=x'],
    ['PUT', '/scopes/a?parent=b'],
    ['GET', '/sessions/default?x=1']
  ] as const) {
    const body = method === 'GET' || method === 'DELETE' ? undefined : {}
    expect([path, outcome(await app.ask(method, path, body))]).toEqual([path, '400 BAD_REQUEST'])
  }
  expect((await app.ask('GET', '/sessions/default')).status).toBe(404)
  // Probes may add what they like.
  expect((await app.ask('GET', '/health/live?x=1')).status).toBe(200)
})

it('the content type of a request without a body says nothing', async () => {
  const app = await HomeApp.start()
  const headers = { 'content-type': 'text/plain; charset=latin1', 'content-encoding': 'gzip' }
  expect((await app.ask('GET', '/health/live', undefined, { headers })).status).toBe(200)
})
