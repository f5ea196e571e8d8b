import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { HomeApp, outcome } from '../helpers/home-app.ts'
import { temporaryDirectory } from '../helpers/temporary-directory.ts'

describe('registrations over the wire come back after a restart (api.md §3)', () => {
  it('scopes parents first, with masks under their ids, modes and idle times; what was disposed does not', async () => {
    const app = await HomeApp.start({}, ['alpha', 'beta', 'gamma'])
    // Made in an order in which the children sort before their parents.
    await app.ask('PUT', '/scopes/z', { restrict: [{ allow: ['alpha', 'beta'] }], ttlMs: 3_600_000 })
    await app.ask('PUT', '/scopes/m', { parent: 'z', presentAs: 'both' })
    await app.ask('PUT', '/scopes/a', { parent: 'm' })
    await app.ask('PUT', '/scopes/gone', { parent: 'z', restrict: [{ deny: ['alpha'] }] })
    const mask = await app.ask('POST', '/scopes/a/restrictions', { deny: ['beta'] })
    await app.ask('DELETE', '/scopes/gone')
    const before = await app.ask('GET', '/scopes')
    await app.restart()
    expect((await app.ask('GET', '/scopes')).text).toBe(before.text)
    expect(await app.names('a')).toEqual(['alpha', 'run_code'])
    expect((await app.ask('DELETE', `/scopes/a/restrictions/${mask.body.id}`)).status).toBe(204)
    expect(await app.names('a')).toEqual(['alpha', 'beta', 'run_code'])
    await app.ask('DELETE', '/scopes/m/presentation')
    await app.restart()
    expect(await app.names('a')).toEqual(['alpha', 'beta'])
    expect((await app.ask('GET', '/scopes/a')).body.mode).toBe('native')
  })

  it('a mask stands as it is while the tools that it names are not there yet', async () => {
    const app = await HomeApp.start()
    const undo = app.app.tools.register({ ...app.app.registry.lookup('read')!, name: 'later' })
    await app.ask('PUT', '/scopes/a', { restrict: [{ deny: ['later'] }] })
    undo()
    await app.restart()
    expect((await app.ask('GET', '/scopes/a')).body.restrictions).toMatchObject([{ deny: ['later'] }])
    app.app.tools.register({ ...app.app.registry.lookup('read')!, name: 'later' })
    expect(await app.names('global')).toContain('later')
    expect(await app.names('a')).not.toContain('later')
    expect(outcome(await app.ask('POST', '/scopes/a/restrictions', { deny: ['never'] }))).toBe('422 INVALID_DEFINITION')
  })

  it('what is below the scope of a plugin comes back with it, and is nowhere without it', async () => {
    const directory = temporaryDirectory()
    const file = join(directory, 'team.mjs')
    const plugin = (name: string, body: string): string =>
      `export default ({ definePlugin }) => definePlugin({ name: '${name}' }, (tools) => { ${body} })`
    writeFileSync(file, plugin('team', `tools.child('team')`))
    const app = await HomeApp.start({ plugins: file })
    await app.ask('PUT', '/scopes/team', { restrict: [{ deny: ['bash'] }] })
    await app.ask('PUT', '/scopes/sub', { parent: 'team' })
    await app.ask('PUT', '/scopes/apart', {})
    await app.restart()
    expect((await app.ask('GET', '/scopes/sub')).body.parent).toBe('team')
    expect(await app.names('sub')).not.toContain('bash')

    await app.app.close()
    writeFileSync(join(directory, 'other.mjs'), plugin('other', ''))
    const without = await HomeApp.start({ plugins: join(directory, 'other.mjs'), home: app.home })
    for (const id of ['team', 'sub'])
      expect(outcome(await without.ask('GET', `/scopes/${id}`))).toBe('404 UNKNOWN_SCOPE')
    expect((await without.ask('GET', '/scopes/apart')).status).toBe(200)
    // Somebody who did not reach the old place cannot have the id.
    const token = await without.tokenFor('agent', 'apart')
    expect(outcome(await without.ask('PUT', '/scopes/sub', {}, { token }))).toBe('404 UNKNOWN_SCOPE')
    expect((await without.ask('PUT', '/scopes/sub', {})).body).toMatchObject({ parent: 'global', restrictions: [] })
  })
})
