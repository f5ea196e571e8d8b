import { describe, expect, it } from 'vitest'
import { bareTool } from '../helpers/bare-tool.ts'
import { HomeApp, outcome } from '../helpers/home-app.ts'

describe('GET /tools (api.md §3)', () => {
  it('tells of each tool what it is, what runs it, its limits and its cards', async () => {
    const app = await HomeApp.start()
    app.app.tools.register(bareTool('plain'))
    app.app.tools.register(
      bareTool('rich', {
        timeoutMs: 500,
        idempotent: true,
        isConcurrencySafe: () => true,
        presentCall: () => ({ card: 'generic', title: 'rich' })
      })
    )
    expect((await app.ask('GET', '/tools/plain')).body).toEqual({
      name: 'plain',
      scope: 'global',
      description: 'does plain',
      parameters: { type: 'object', properties: {} },
      output: { type: 'string' },
      origin: 'plugin',
      executor: { kind: 'in-process' },
      limits: { concurrency: 'exclusive' },
      cards: { call: false, result: false }
    })
    expect((await app.ask('GET', '/tools/rich')).body).toMatchObject({
      limits: { timeoutMs: 500, concurrency: 'by-arguments' },
      idempotent: true,
      cards: { call: true, result: false }
    })
  })

  it('shows a tool as the scope sees it, and where it is registered only to who reaches that', async () => {
    const app = await HomeApp.start({}, ['alpha', 'beta'])
    await app.ask('PUT', '/scopes/a', { restrict: [{ deny: ['beta'] }] })
    await app.ask('PUT', '/scopes/a.1', { parent: 'a' })
    app.app.tools.child('a').register(bareTool('alpha', { description: 'shadows' }))
    const token = await app.tokenFor('agent', 'a')
    const tool = async (path: string, given?: string): Promise<unknown> => {
      const answer = await app.ask('GET', path, undefined, given === undefined ? {} : { token: given })
      return answer.status === 200 ? [answer.body.description, answer.body.scope] : outcome(answer)
    }
    expect(await tool('/tools/alpha')).toEqual(['does alpha', 'global'])
    expect(await tool('/tools/alpha?scope=a.1')).toEqual(['shadows', 'a'])
    expect(await tool('/tools/alpha', token)).toEqual(['shadows', 'a'])
    expect(await tool('/tools/read', token)).toEqual([expect.any(String), undefined])
    expect(await tool('/tools/beta', token)).toBe('404 NOT_FOUND')
    expect(await tool('/tools/beta?scope=global', token)).toBe('404 UNKNOWN_SCOPE')
  })

  it('run_code is nobody’s registration', async () => {
    const app = await HomeApp.start()
    await app.ask('PUT', '/scopes/a', { presentAs: 'both' })
    const { body } = await app.ask('GET', '/tools/run_code?scope=a')
    expect([body.origin, body.scope]).toEqual(['code-mode', undefined])
    expect(outcome(await app.ask('GET', '/tools/run_code'))).toBe('404 NOT_FOUND')
  })

  it('pages in the order of the view; a cursor that names nothing is refused', async () => {
    const app = await HomeApp.start({}, ['zulu', 'alpha', 'mike'])
    const names: string[] = []
    let pages = 0
    for (let query = '?limit=2'; query !== ''; pages += 1) {
      const { body } = await app.ask('GET', `/tools${query}`)
      names.push(...body.tools.map(({ name }: { name: string }) => name))
      query = body.next === undefined ? '' : `?limit=2&after=${body.next}`
    }
    expect([names, pages]).toEqual([await app.names('global'), Math.ceil(names.length / 2)])
    expect(outcome(await app.ask('GET', '/tools?after=nope'))).toBe('400 BAD_REQUEST')
  })

  it('hostile names find nothing', async () => {
    const app = await HomeApp.start()
    for (const name of ['__proto__', 'constructor', 'toString', '%00', '..%2F..', '%F0%9F%92%A9', 'run_code']) {
      expect([name, outcome(await app.ask('GET', `/tools/${name}`))]).toEqual([name, '404 NOT_FOUND'])
    }
  })
})
