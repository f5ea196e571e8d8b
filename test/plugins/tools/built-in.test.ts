import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { startApp } from '../../helpers/app.ts'
import { serveApp } from '../../helpers/served-app.ts'
import { temporaryDirectory } from '../../helpers/temporary-directory.ts'

it('C60 C62 C67 the server searches in the directory of the session, and its events have the cards', async () => {
  const app = await startApp({ 'search.globMaxResults': '1', 'todo.allowParallelInProgress': 'false' })
  const cwd = temporaryDirectory()
  for (const name of ['a.ts', 'b.ts']) writeFileSync(join(cwd, name), 'foo\n')
  await app.served.call('/sessions/s1', { json: { cwd }, method: 'PUT' })
  const call = (name: string, args: object) => app.invoke({ session: 's1', name, arguments: args })
  const found = await call('glob', { pattern: '*.ts' })
  expect(found).toMatchObject({ isError: false, value: { root: '.', paths: expect.arrayContaining(['a.ts', 'b.ts']) } })
  const [block] = found.content as readonly { text?: string }[]
  const [, locator = ''] = /all of them: (\S+) \(/.exec(block?.text ?? '') ?? []
  // The session may read its own outputs.
  expect(await call('read', { file_path: locator })).toMatchObject({ isError: false, value: { totalLines: 2 } })
  expect(await call('grep', { pattern: 'foo' })).toMatchObject({
    value: { matches: [{ path: 'a.ts' }, { path: 'b.ts' }] }
  })
  const todos = ['a', 'b'].map((content) => ({ content, status: 'in_progress' }))
  expect((await call('todo_write', { todos })).isError).toBe(true)
  expect((await call('todo_write', { todos: todos.slice(1) })).isError).toBe(false)
  const events: { type: string; data: unknown; view?: { card: string; shape?: string; total?: number } }[] =
    await app.events('s1')
  expect(events.filter(({ type }) => type === 'todo/write').map(({ data }) => data)).toEqual([
    { todos: todos.slice(1) }
  ])
  const cards = events.flatMap(({ view }) => (view?.card === 'search' ? [`${view.shape} ${view.total}`] : []))
  expect(cards).toEqual(['paths 2', 'matches 2'])
})

it('docs/tools.md names each built-in tool', async () => {
  const { app } = await serveApp()
  const names = app.tools.schemas().map(({ name }) => name)
  expect(names.length).toBeGreaterThanOrEqual(20)
  const page = readFileSync(join(import.meta.dirname, '../../../docs/tools.md'), 'utf8')
  expect(names.filter((name) => !page.includes(`\`${name}\``))).toEqual([])
})

it('the rules of docs/permissions.md name arguments that the tools have', async () => {
  const { app } = await serveApp()
  for (const name of ['write', 'edit']) {
    const schema = app.tools.schemas().find((tool) => tool.name === name)
    expect(schema?.parameters).toHaveProperty('properties.file_path')
  }
})
