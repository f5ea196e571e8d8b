import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { buildApp } from '../../../server/app.ts'
import { loadConfig } from '../../../server/config/load.ts'
import { temporaryDirectory } from '../../helpers/temporary-directory.ts'

/** What the start of a server with these settings fails of, as the process tells it. */
async function problemOf(settings: object): Promise<unknown> {
  const home = temporaryDirectory()
  const file = join(home, 'c.json')
  writeFileSync(file, JSON.stringify({ home, log: { level: 'silent' }, codeRuntime: { backend: 'off' }, ...settings }))
  return buildApp(loadConfig({ file }).config).then(
    (app) => app.close(),
    (error: unknown) => error
  )
}

/** 78: a supervisor does not start it again and again (reliability.md §3.4). */
const configError = (text: string) => ({ exitCode: 78, message: expect.stringContaining(text) })

it('a plugin file that is not there, or is no plugin, is an error of the configuration', async () => {
  const none = join(temporaryDirectory(), 'none.mjs')
  writeFileSync(none, 'export default 1')
  expect(await problemOf({ plugins: ['./gone.mjs'] })).toMatchObject(configError('gone.mjs does not load'))
  expect(await problemOf({ plugins: [none] })).toMatchObject(configError('none.mjs does not load: its default export'))
})

it('a plugin whose registration fails is not: starting again may help', async () => {
  const plugin = join(temporaryDirectory(), 'failing.mjs')
  writeFileSync(
    plugin,
    `export default ({ definePlugin }) => definePlugin({ name: 'failing' }, () => { throw new Error('not reached') })`
  )
  const problem = await problemOf({ plugins: [plugin] })
  expect(problem).toMatchObject({ message: expect.stringMatching(/failing\.mjs does not load: .*not reached$/) })
  expect(problem).not.toHaveProperty('exitCode')
})

it('the file of credentials that is not there is an error of the configuration', async () => {
  const pets = { type: 'bearer', origins: ['https://api.example'], secretFile: '/nowhere/pets' }
  expect(await problemOf({ httpTools: { credentials: { pets } } })).toMatchObject(
    configError('httpTools.credentials.pets: ENOENT')
  )
})

it('MCP servers that cannot be are all named, without what is secret, before any is connected to', async () => {
  const url = 'https://mcp.example/mcp'
  const problem = await problemOf({
    mcp: {
      servers: {
        one: { transport: 'streamable-http', url, headers: { authorization: 'Bearer hidden…' } },
        two: { transport: 'stdio', command: './server' }
      }
    }
  })
  expect(problem).toMatchObject(configError('MCP server "one": headers'))
  expect(problem).toMatchObject(configError('MCP server "two": command'))
  expect((problem as Error).message).not.toContain('hidden')
})
