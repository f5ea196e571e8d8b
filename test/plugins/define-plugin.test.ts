import Fastify, { type FastifyInstance } from 'fastify'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { definePlugin } from '../../plugins/define-plugin.ts'
import { type ToolEngine, type ToolScope, toolScopeOf } from '../../server/authoring/tool-scope.ts'
import type { Services } from '../../server/services.ts'
import { ScopeTree } from '../../server/scopes/scope-tree.ts'
import { Registry } from '../../server/tools/registry.ts'
import { bareTool } from '../helpers/bare-tool.ts'

/** What stands in for the shell here: a plugin only has to be given it. */
const shellOf = (label: string) => ({ label }) as unknown as Services['shell']
const labelOf = (shell: unknown): string => (shell as { label: string }).label

let app: FastifyInstance
let root: ToolScope
let closed: string[]

beforeEach(() => {
  const tree = new ScopeTree()
  const engine: ToolEngine = {
    tree,
    registry: new Registry({ tree }),
    pipeline: {
      execute: () => Promise.reject(new Error('not called')),
      executionMode: () => ({ kind: 'exclusive' }),
      quiet: async (scope) => void closed.push(`quiet ${scope.id}`)
    },
    service: (name) => (name === 'shell' ? shellOf('the live shell') : undefined)
  }
  closed = []
  root = toolScopeOf(engine, tree.global)
  app = Fastify()
  app.decorate('tools', root)
  app.addHook('onRegister', (instance, options) => {
    const scoped = instance as unknown as { tools: ToolScope }
    const { scope } = options as { scope?: string }
    if (scope !== undefined) scoped.tools = scoped.tools.child(scope)
  })
})

afterEach(() => app.close())

const names = (scope: ToolScope) => scope.schemas().map((schema) => schema.name)

const greet = definePlugin(
  { name: 'greet', needs: ['shell'] },
  async (tools, { shell }, { loud = false }: { loud?: boolean }) => {
    await Promise.resolve()
    tools.register(bareTool('greet', { description: `${loud ? 'HELLO' : 'hello'} from ${labelOf(shell)}` }))
    tools.onDispose(() => void closed.push(`closed in ${tools.id}`))
  }
)

it('registers globally in Fastify, with the services that are decorated there', async () => {
  app.decorate('shell', shellOf('the shell'))
  await app.register(greet, { loud: true })
  await app.ready()
  expect(root.get('greet')?.description).toBe('HELLO from the shell')
})

it('registers in a child scope with { scope }: encapsulated, so that onRegister fires', async () => {
  app.decorate('shell', shellOf('the shell'))
  let seen: unknown
  await app.register(greet, { scope: 'team-a' })
  await app.register(
    definePlugin({ name: 'other' }, (tools, _services, options) => {
      seen = options
      tools.register(bareTool('other'))
    }),
    { scope: 'team-a' }
  )
  await app.ready()
  expect(names(root)).toEqual([])
  expect(names(root.child('team-a'))).toEqual(['greet', 'other'])
  expect(seen).toEqual({})
})

it('mounts the same value on a live scope, with the services of the engine', async () => {
  const agent = root.child('agent')
  const mounted = await agent.mount(greet)
  expect(agent.get('greet')?.description).toBe('hello from the live shell')
  await mounted.dispose()
  expect(names(agent)).toEqual([])
  expect(closed).toEqual(['quiet agent', 'closed in agent'])
})

it('is taken back when Fastify closes', async () => {
  app.decorate('shell', shellOf('the shell'))
  await app.register(greet, {})
  await app.ready()
  await app.close()
  expect(closed).toEqual(['quiet global', 'closed in global'])
  expect(names(root)).toEqual([])
})

it('fails the boot naming the plugin and the service that is not there', async () => {
  app.register(greet, {})
  await expect(app.ready()).rejects.toThrow(/shell.*greet/)
})

it('fails the boot naming the plugin whose body failed, with nothing left of it', async () => {
  app.register(
    definePlugin({ name: 'broken' }, async (tools) => {
      tools.register(bareTool('half'))
      await Promise.resolve()
      throw new Error('no database')
    })
  )
  const boot = app.ready()
  await expect(boot).rejects.toThrow('plugin "broken" failed to load: Error: no database')
  await expect(boot).rejects.toMatchObject({ cause: { message: 'no database' } })
  expect(names(root)).toEqual([])
})

it('fails where there are no tools', async () => {
  const bare = Fastify()
  bare.register(definePlugin({ name: 'lost' }, () => {}))
  await expect(bare.ready()).rejects.toThrow('tools')
})

it('types what a body gets', () => {
  // @ts-expect-error: there is no such service
  definePlugin({ name: 'x', needs: ['nothing'] }, () => {})
  // @ts-expect-error: a service that is not asked for is not given
  definePlugin({ name: 'x', needs: [] }, (_tools, { shell }) => void shell)
  expect(() => definePlugin({ name: '' }, () => {})).not.toThrow()
})
