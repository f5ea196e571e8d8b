import { beforeEach, describe, expect, it, vi } from 'vitest'
import { type Plugin, type PluginBody, pluginKey } from '../../server/authoring/plugin.ts'
import { type ToolEngine, type ToolScope, toolScopeOf } from '../../server/authoring/tool-scope.ts'
import type { Execution, ExecutionInput } from '../../server/pipeline/execution.ts'
import { guardRefusal } from '../../server/pipeline/guard.ts'
import { hooksOf } from '../../server/pipeline/hooks.ts'
import { createPipeline } from '../../server/pipeline/pipeline.ts'
import { ScopeTree } from '../../server/scopes/scope-tree.ts'
import { Registry } from '../../server/tools/registry.ts'
import { bareTool } from '../helpers/bare-tool.ts'

let tree: ScopeTree
let registry: Registry
let engine: ToolEngine
let root: ToolScope
let trace: string[]
/** Releases the wait for the calls in flight. */
let calm: () => void

beforeEach(() => {
  tree = new ScopeTree()
  registry = new Registry({ tree, transport: bareTool('run_code') })
  trace = []
  calm = () => {}
  engine = {
    tree,
    registry,
    pipeline: {
      execute: async (input) => ({ isError: false, value: input.callId, content: [] }),
      executionMode: (input) => ({ kind: input.callId === 'p' ? 'parallel' : 'exclusive' }),
      quiet: async (scope) => {
        trace.push(`quiet ${scope.id}`)
      }
    },
    service: (name) => (name === 'clock' ? { now: () => 'noon' } : undefined)
  }
  root = toolScopeOf(engine, tree.global)
})

const names = (scope: ToolScope) => scope.schemas().map((schema) => schema.name)
const exec = {} as Execution
const refusal = (scope: ToolScope) => guardRefusal(exec, scope.scope.chain)
const hooks = (scope: ToolScope) => hooksOf('preExecute', scope.scope.chain).length
const busy = () => {
  engine.pipeline.quiet = () =>
    new Promise<void>((resolve) => {
      calm = resolve
    })
}

function plugin<Options extends object>(
  name: string,
  body: PluginBody<Record<string, unknown>, Options>,
  needs: string[] = []
): Plugin<Options> {
  return { [pluginKey]: { name, needs, body } }
}

describe('a scope', () => {
  it('has one handle, with its id and its parent', () => {
    const team = root.child('team')
    const agent = team.child('agent')
    expect(agent.id).toBe('agent')
    expect(agent.parent).toBe(team)
    expect(team.parent).toBe(root)
    expect(root.parent).toBeUndefined()
    expect(toolScopeOf(engine, agent.scope)).toBe(agent)
  })

  it('opens a child again, but not one from elsewhere in the tree', () => {
    const team = root.child('team')
    expect(root.child('team')).toBe(team)
    team.child('agent')
    expect(() => root.child('agent')).toThrow('not a child of "global"')
    expect(() => root.child('global')).toThrow('not a child')
  })

  it('binds each registration to itself, and each undo takes its own back [core-7.13]', () => {
    const agent = root.child('agent')
    root.register(bareTool('read'))
    const undos = [
      agent.register(bareTool('own')),
      agent.restrict({ deny: ['read'] }),
      agent.presentAs('code'),
      agent.guard(() => 'no'),
      agent.addHook('preExecute', (_exec, next) => next())
    ]
    expect(names(agent)).toEqual(['own', 'run_code'])
    expect(agent.get('own')?.name).toBe('own')
    expect(refusal(agent)).toBe('no')
    expect(hooks(agent)).toBe(1)
    expect(names(root)).toEqual(['read'])
    expect(refusal(root)).toBeUndefined()
    for (const undo of [...undos, ...undos]) undo()
    expect(names(agent)).toEqual(['read'])
    expect(agent.get('own')).toBeUndefined()
    expect(refusal(agent)).toBeUndefined()
    expect(hooks(agent)).toBe(0)
  })

  it('orders hooks by registration, or first with prepend', () => {
    const [a, b] = [vi.fn(), vi.fn()]
    root.addHook('onResult', a)
    root.addHook('onResult', b, { prepend: true })
    expect(hooksOf('onResult', root.scope.chain)).toEqual([b, a])
  })

  it('hears tools/change of any scope through onChange, until it is undone or its scope disposed [core-7.14.change]', async () => {
    const heard = vi.fn()
    const agent = root.child('agent')
    const undo = agent.addHook('onChange', heard)
    root.register(bareTool('a'))
    expect(heard).toHaveBeenCalledTimes(1)
    undo()
    root.register(bareTool('b'))
    expect(heard).toHaveBeenCalledTimes(1)
    agent.addHook('onChange', heard)
    await agent.dispose()
    heard.mockClear()
    root.register(bareTool('c'))
    expect(heard).not.toHaveBeenCalled()
  })

  it('passes calls through to the pipeline', async () => {
    const input = {
      callId: 'p',
      name: 'x',
      arguments: {},
      signal: new AbortController().signal
    } satisfies ExecutionInput
    expect(await root.execute(input)).toMatchObject({ value: 'p' })
    expect(root.executionMode(input)).toEqual({ kind: 'parallel' })
  })
})

describe('disposal', () => {
  it('C048 takes a tool, a mask, a guard and a mode back at once, and frees the id [core-6.4] [core-7.2.unknown]', async () => {
    root.register(bareTool('read'))
    const agent = root.child('agent')
    const undo = agent.register(bareTool('own'))
    agent.restrict({ deny: ['read'] })
    agent.presentAs('code')
    agent.guard(() => 'no')
    agent.addHook('preExecute', (_exec, next) => next())
    const disposal = agent.dispose()
    expect(names(agent)).toEqual(['read'])
    expect(registry.effectiveMode(agent.scope)).toBe('native')
    expect(refusal(agent)).toBeUndefined()
    expect(hooks(agent)).toBe(0)
    expect(tree.get('agent')).toBeUndefined()
    const fresh = root.child('agent')
    fresh.register(bareTool('own'))
    await disposal
    undo()
    await agent.dispose()
    expect(names(fresh)).toEqual(['read', 'own'])
    expect(tree.get('agent')).toBe(fresh.scope)
  })

  it('emits tools/change', async () => {
    const agent = root.child('agent')
    agent.register(bareTool('own'))
    const heard = vi.fn(() => expect(names(agent)).toEqual([]))
    registry.onChange(heard)
    await agent.dispose()
    expect(heard).toHaveBeenCalledTimes(1)
  })

  it('takes the subtree, deepest first, then awaits quiet, then closes, last registered first', async () => {
    const team = root.child('team')
    const agent = team.child('agent')
    team.onDispose(() => void trace.push('close team 1'))
    team.onDispose(async () => {
      await Promise.resolve()
      trace.push('close team 2')
    })
    agent.onDispose(() => void trace.push('close agent'))
    const undo = agent.onDispose(() => void trace.push('never'))
    undo()
    await team.dispose()
    expect(trace).toEqual(['quiet team', 'close agent', 'close team 2', 'close team 1'])
    expect(tree.all()).toEqual([tree.global])
    await agent.dispose()
    expect(trace.at(-1)).toBe('quiet agent')
  })

  it('closes nothing while a call is in flight, and is one disposal however often it is asked for', async () => {
    busy()
    const agent = root.child('agent')
    const close = vi.fn()
    agent.onDispose(close)
    const disposal = agent.dispose()
    expect(agent.dispose()).toBe(disposal)
    await Promise.resolve()
    expect(close).not.toHaveBeenCalled()
    calm()
    await disposal
    expect(close).toHaveBeenCalledTimes(1)
  })

  it('waits for the real calls in flight, also below, and lets them finish', async () => {
    const pipeline = createPipeline({ tree, registry, warn: () => {} })
    const scopes = toolScopeOf({ tree, registry, pipeline }, tree.create('team'))
    const child = scopes.child('below')
    let release: () => void = () => {}
    child.register(
      bareTool('gate', {
        execute: () =>
          new Promise((resolve) => {
            release = () => resolve('through')
            trace.push('entered')
          })
      })
    )
    scopes.onDispose(() => void trace.push('closed'))
    const { signal } = new AbortController()
    const agent = { id: 's', scope: child.scope }
    const call = scopes.execute({ callId: 'c', name: 'gate', arguments: {}, agent, signal })
    await vi.waitFor(() => expect(trace).toEqual(['entered']))
    const disposal = scopes.dispose()
    const after = await scopes.execute({ callId: 'd', name: 'gate', arguments: {}, agent, signal })
    expect(after).toMatchObject({ isError: true, error: { info: { code: 'UNKNOWN_TOOL' } } })
    expect(trace).toEqual(['entered'])
    release()
    expect(await call).toMatchObject({ isError: false, value: 'through' })
    await disposal
    expect(trace).toEqual(['entered', 'closed'])
  })

  it('finishes whatever fails on the way, and rejects with it', async () => {
    const agent = root.child('agent')
    const closed = vi.fn()
    agent.onDispose(closed)
    agent.onDispose(() => {
      throw new Error('close')
    })
    await expect(agent.dispose()).rejects.toThrow('close')
    expect(closed).toHaveBeenCalled()

    const other = root.child('other')
    other.onDispose(() => Promise.reject(new Error('late')))
    registry.onChange(() => {
      throw new Error('listener')
    })
    await expect(other.dispose()).rejects.toMatchObject({
      errors: [expect.objectContaining({ message: 'listener' }), expect.objectContaining({ message: 'late' })]
    })
    expect(trace).toContain('quiet other')
  })

  it('refuses registrations afterwards, and spares the global scope', async () => {
    const agent = root.child('agent')
    await agent.dispose()
    for (const register of [
      () => agent.register(bareTool('x')),
      () => agent.restrict({ deny: [] }),
      () => agent.presentAs('code'),
      () => agent.guard(() => undefined),
      () => agent.addHook('onResult', () => {}),
      () => agent.addHook('onChange', () => {}),
      () => agent.onDispose(() => {}),
      () => agent.child('below')
    ]) {
      expect(register).toThrow('scope "agent" is disposed')
    }
    await expect(agent.mount(plugin('p', () => {}))).rejects.toThrow('disposed')
    await expect(root.dispose()).rejects.toThrow('global scope cannot be disposed')
    expect(() => root.register(bareTool('x'))).not.toThrow()
  })
})

describe('mount', () => {
  it('hands the body its scope, its services and its options, and awaits it', async () => {
    const seen: unknown[] = []
    const greet = plugin<{ loud?: boolean }>(
      'greet',
      async (tools, { clock }, { loud = false }) => {
        await Promise.resolve()
        seen.push(tools.id, (clock as { now(): string }).now(), loud)
        tools.register(bareTool('greet'))
      },
      ['clock']
    )
    const agent = root.child('agent')
    const mounted = await agent.mount(greet, { loud: true })
    await root.mount(greet)
    expect(mounted.name).toBe('greet')
    expect(seen).toEqual(['agent', 'noon', true, 'global', 'noon', false])
    expect(names(root)).toEqual(['greet'])
    expect(names(agent)).toEqual(['greet'])
  })

  it.each([undefined, null, 'greet', {}, () => {}])('refuses %s, which is no plugin', async (value) => {
    await expect(root.mount(value as Plugin)).rejects.toThrow('not a plugin')
  })

  it('names a service that is not there, before the body runs', async () => {
    const body = vi.fn()
    await expect(root.mount(plugin('greet', body, ['clock', 'moon']))).rejects.toThrow(
      'plugin "greet" needs the service "moon"'
    )
    expect(body).not.toHaveBeenCalled()
    delete (engine as { service?: unknown }).service
    await expect(root.mount(plugin('greet', body, ['clock']))).rejects.toThrow('"clock"')
  })

  it('takes back what the plugin registered, and only that, when the mount is disposed [core-6.4]', async () => {
    const agent = root.child('agent')
    root.register(bareTool('read'))
    agent.register(bareTool('other'))
    agent.guard(() => undefined)
    const closed = vi.fn()
    const heard = vi.fn()
    const mounted = await agent.mount(
      plugin('p', (tools) => {
        tools.register(bareTool('mine'))
        tools.restrict({ deny: ['read'] })
        tools.presentAs('code')
        tools.guard(() => 'no')
        tools.addHook('preExecute', (_exec, next) => next())
        tools.addHook('onChange', heard)
        tools.onDispose(closed)
        tools.onDispose(() => void trace.push('never'))()
      })
    )
    expect(names(agent)).toEqual(['other', 'mine', 'run_code'])
    await mounted.dispose()
    expect(names(agent)).toEqual(['read', 'other'])
    expect(refusal(agent)).toBeUndefined()
    expect(hooks(agent)).toBe(0)
    expect(closed).toHaveBeenCalledTimes(1)
    heard.mockClear()
    agent.register(bareTool('later'))
    expect(heard).not.toHaveBeenCalled()
    expect(trace).toEqual(['quiet agent'])
    await mounted.dispose()
    await agent.dispose()
    expect(closed).toHaveBeenCalledTimes(1)
  })

  it('an undo that the plugin called itself is not called again', async () => {
    const heard = vi.fn()
    const mounted = await root.mount(plugin('p', (tools) => tools.register(bareTool('mine'))()))
    root.register(bareTool('mine'))
    registry.onChange(heard)
    await mounted.dispose()
    expect(names(root)).toEqual(['mine'])
    expect(heard).not.toHaveBeenCalled()
  })

  it('is closed by the disposal of its scope, once', async () => {
    const agent = root.child('agent')
    const closed = vi.fn()
    const mounted = await agent.mount(plugin('p', (tools) => void tools.onDispose(closed)))
    await agent.dispose()
    await mounted.dispose()
    expect(closed).toHaveBeenCalledTimes(1)
  })

  it('closes only when the calls in flight have settled', async () => {
    busy()
    const closed = vi.fn()
    const mounted = await root.mount(plugin('p', (tools) => void tools.onDispose(closed)))
    const disposal = mounted.dispose()
    await new Promise((resolve) => setImmediate(resolve))
    expect(closed).not.toHaveBeenCalled()
    calm()
    await disposal
    expect(closed).toHaveBeenCalledTimes(1)
  })

  it('a body that fails undoes what it had registered, sync or async', async () => {
    const closed = vi.fn(() => {
      throw new Error('and closing fails too')
    })
    const failing = (fail: () => void | Promise<void>) =>
      plugin('p', (tools) => {
        tools.register(bareTool('mine'))
        tools.child('below').register(bareTool('deep'))
        tools.onDispose(closed)
        return fail()
      })
    await expect(root.mount(failing(() => Promise.reject(new Error('async'))))).rejects.toThrow('async')
    await expect(
      root.mount(
        failing(() => {
          throw new Error('sync')
        })
      )
    ).rejects.toThrow('sync')
    expect(names(root)).toEqual([])
    expect(tree.get('below')).toBeUndefined()
    expect(closed).toHaveBeenCalledTimes(2)
  })

  it('a body that outlives its scope, or its mount, registers nothing', async () => {
    const agent = root.child('agent')
    let go: () => void = () => {}
    const late = new Promise<void>((resolve) => {
      go = resolve
    })
    const quietly = agent.mount(plugin('p', () => late))
    const loudly = agent.mount(
      plugin('q', async (tools) => {
        await late
        tools.register(bareTool('late'))
      })
    )
    await agent.dispose()
    go()
    await expect(quietly).rejects.toThrow('disposed')
    await expect(loudly).rejects.toThrow('disposed')

    let kept: ToolScope | undefined
    const mounted = await root.mount(
      plugin('r', (tools) => {
        kept = tools
      })
    )
    await mounted.dispose()
    expect(() => kept?.register(bareTool('late'))).toThrow('mount of plugin "r" is disposed')
    expect(() => kept?.onDispose(() => {})).toThrow('disposed')
    expect(names(root)).toEqual([])
  })

  it('owns the child scopes that it made, and its part of those that were there', async () => {
    const old = root.child('old')
    const mounted = await root.mount(
      plugin('p', (tools) => {
        tools.child('old').register(bareTool('in-old'))
        tools.child('new').register(bareTool('in-new'))
        expect(tools.child('old')).toBe(tools.child('old'))
        expect(tools.child('new')).toBe(tools.child('new'))
      })
    )
    old.register(bareTool('kept'))
    expect(names(old)).toEqual(['in-old', 'kept'])
    await mounted.dispose()
    expect(names(old)).toEqual(['kept'])
    expect(tree.get('new')).toBeUndefined()
    expect(tree.get('old')).toBe(old.scope)
  })

  it('forgets a child that was disposed: a new one of the same id is not the old', async () => {
    const mounted = await root.mount(
      plugin('p', async (tools) => {
        const first = tools.child('agent')
        await first.dispose()
        const second = tools.child('agent')
        expect(second).not.toBe(first)
        second.register(bareTool('x'))
      })
    )
    await mounted.dispose()
    expect(tree.get('agent')).toBeUndefined()
  })

  it('owns the plugins that are mounted through it', async () => {
    const inner = plugin('inner', (tools) => void tools.register(bareTool('inner')))
    const mounted = await root.mount(
      plugin('outer', async (tools) => {
        await tools.mount(inner)
        tools.register(bareTool('outer'))
      })
    )
    expect(names(root)).toEqual(['inner', 'outer'])
    await mounted.dispose()
    expect(names(root)).toEqual([])
  })

  it('disposes all of it whatever fails, and rejects with the failures, none unhandled', async () => {
    const unhandled = vi.fn()
    process.on('unhandledRejection', unhandled)
    const failing = (name: string) =>
      plugin(name, (tools) => {
        tools.register(bareTool(name))
        tools.onDispose(async () => {
          throw new Error(name)
        })
      })
    const mounted = await root.mount(
      plugin('outer', async (tools) => {
        await tools.mount(failing('a'))
        await tools.mount(failing('b'))
        tools.register(bareTool('c'))
      })
    )
    const undo = registry.onChange(() => {
      throw new Error('listener')
    })
    await expect(mounted.dispose()).rejects.toBeInstanceOf(AggregateError)
    await new Promise((resolve) => setImmediate(resolve))
    process.off('unhandledRejection', unhandled)
    expect(unhandled).not.toHaveBeenCalled()
    undo()
    expect(names(root)).toEqual([])
  })
})
