import { beforeEach, describe, expect, it, vi } from 'vitest'
import { ScopeTree } from '../../server/scopes/scope-tree.ts'
import type { ToolDefinition } from '../../server/tools/definition.ts'
import type { Mode } from '../../server/tools/presentation.ts'
import { DuplicateToolError, Registry } from '../../server/tools/registry.ts'
import type { Scope } from '../../server/scopes/scope.ts'
import { bareTool } from '../helpers/bare-tool.ts'

const names = (scope?: Scope) => registry.schemas(scope).map((schema) => schema.name)

let tree: ScopeTree
let registry: Registry
let mode: Mode

beforeEach(() => {
  tree = new ScopeTree()
  mode = 'native'
  registry = new Registry({ tree, defaultMode: () => mode, transport: bareTool('run_code') })
})

const registerAll = (scope: Scope, ...tools: string[]) => tools.map((name) => registry.register(scope, bareTool(name)))

describe('registration (core.md §6)', () => {
  it('C029 stores nothing of what it rejects [core-6.1.nothing-stored]', () => {
    registerAll(tree.global, 'a')
    expect(() => registry.register(tree.global, bareTool('bad', { timeoutMs: 0 }))).toThrow(TypeError)
    expect(names()).toEqual(['a'])
  })

  it.each<Mode>(['native', 'code', 'both'])(
    'C029 run_code is reserved globally and in scopes, in mode %s [core-6.1.4]',
    (configured) => {
      mode = configured
      const scope = tree.create('agent')
      for (const where of [tree.global, scope]) {
        expect(() => registry.register(where, bareTool('run_code'))).toThrow('"run_code" is reserved')
      }
      expect(names()).toEqual(configured === 'native' ? [] : ['run_code'])
    }
  )

  it('C031 refuses a duplicate in one layer, with a text of its own for each kind of layer [core-6.1.5] [core-30.plain-error]', () => {
    const scope = tree.create('agent')
    registerAll(tree.global, 'same')
    registerAll(scope, 'same')
    const globally = () => registry.register(tree.global, bareTool('same'))
    const scoped = () => registry.register(scope, bareTool('same'))
    expect(globally).toThrow(DuplicateToolError)
    expect(globally).toThrow("in an agent's scope")
    expect(scoped).toThrow(DuplicateToolError)
    expect(scoped).toThrow('in this scope')
    expect(globally).toThrow(expect.objectContaining({ name: 'Error' }))
  })

  it('reports the earlier row when several are broken: a duplicate without an output is a TypeError [core-6.1.order]', () => {
    registerAll(tree.global, 'same')
    const broken = { ...bareTool('same'), output: undefined } as unknown as ToolDefinition
    expect(() => registry.register(tree.global, broken)).toThrow(TypeError)
    const reserved = { ...bareTool('run_code'), output: undefined } as unknown as ToolDefinition
    expect(() => registry.register(tree.global, reserved)).toThrow(TypeError)
  })

  it('gives an idempotent undo that removes exactly its registration (core.md §6.3) [core-6.3]', () => {
    const undo = registry.register(tree.global, bareTool('a'))
    undo()
    expect(names()).toEqual([])
    registerAll(tree.global, 'a')
    undo()
    expect(names()).toEqual(['a'])
  })

  it('refuses a disposed scope', () => {
    const scope = tree.create('agent')
    tree.remove(scope)
    tree.create('agent')
    expect(() => registry.register(scope, bareTool('a'))).toThrow('"agent" is disposed')
    expect(() => registry.restrict(scope, { allow: [] })).toThrow('disposed')
    expect(() => registry.presentAs(scope, 'code')).toThrow('disposed')
  })
})

describe('tools/change (core.md §6.5)', () => {
  it('is heard on register, restrict, presentAs and each undo, with the change in effect [core-6.5.emits]', () => {
    const scope = tree.create('agent')
    const heard: string[] = []
    registry.onChange(() => heard.push(`${names(scope).join()}|${registry.effectiveMode(scope)}`))
    const undoTool = registry.register(tree.global, bareTool('a'))
    const undoMask = registry.restrict(scope, { deny: ['a'] })
    const undoMode = registry.presentAs(scope, 'both')
    undoMode()
    undoMask()
    undoTool()
    expect(heard).toEqual(['a|native', '|native', 'run_code|both', '|native', 'a|native', '|native'])
    undoTool()
    expect(heard).toHaveLength(6)
  })

  it('rolls a registration back when a listener throws; its error reaches the registrant and the name is free [core-6.5.rollback]', () => {
    let calls = 0
    const other = vi.fn()
    const undo = registry.onChange(() => {
      calls += 1
      throw new Error(`listener ${calls}`)
    })
    registry.onChange(other)
    expect(() => registry.register(tree.global, bareTool('a'))).toThrow('listener 1')
    expect(calls).toBe(2)
    expect(other).toHaveBeenCalledTimes(2)
    undo()
    registerAll(tree.global, 'a')
    expect(names()).toEqual(['a'])
  })

  it('rolls back masks and modes likewise', () => {
    const scope = tree.create('agent')
    registerAll(tree.global, 'a')
    const undo = registry.onChange(() => {
      throw new Error('no')
    })
    expect(() => registry.restrict(scope, { allow: [] })).toThrow('no')
    expect(() => registry.presentAs(scope, 'code')).toThrow('no')
    undo()
    expect(names(scope)).toEqual(['a'])
    expect(registry.effectiveMode(scope)).toBe('native')
  })

  it('an undo takes back even when a listener throws', () => {
    const undo = registry.register(tree.global, bareTool('a'))
    registry.onChange(() => {
      throw new Error('deaf')
    })
    expect(undo).toThrow('deaf')
    expect(names()).toEqual([])
    expect(undo).not.toThrow()
  })

  it('is heard in the order of registration, or first with prepend, and no more after the undo', () => {
    const heard: string[] = []
    const undo = registry.onChange(() => heard.push('b'))
    registry.onChange(() => heard.push('a'), { prepend: true })
    registry.changed()
    undo()
    registry.changed()
    expect(heard).toEqual(['a', 'b', 'a'])
  })
})

describe('views (core.md §7)', () => {
  it('C034 projects exactly name, description and parameters, detached each time [core-7.11.keys] [core-7.11.detached]', () => {
    const everything = bareTool('full', {
      parameters: { type: 'object', properties: { a: { type: 'string' } } },
      timeoutMs: 1000,
      idempotent: true,
      isConcurrencySafe: () => true,
      finalizeContent: () => undefined,
      presentCall: () => undefined,
      presentResult: () => undefined
    })
    registry.register(tree.global, everything)
    const [first] = registry.schemas()
    expect(Object.keys(first ?? {}).sort()).toEqual(['description', 'name', 'parameters'])
    const { parameters } = first as unknown as { parameters: { properties: Record<string, unknown> } }
    parameters.properties.b = {}
    first!.description = 'x'
    expect(registry.schemas()).toEqual([
      { name: 'full', description: 'does full', parameters: { type: 'object', properties: { a: { type: 'string' } } } }
    ])
  })

  it('copies schemas that are too deep for recursion (core.md §7.11) [core-7.11.deep]', () => {
    let deep: Record<string, unknown> = { type: 'string' }
    for (let level = 0; level < 5000; level += 1) deep = { type: 'array', items: deep }
    registry.register(tree.global, bareTool('deep', { parameters: { type: 'object', properties: { deep } } as never }))
    const [schema] = registry.schemas()
    let node = (schema!.parameters as { properties: { deep: { items?: unknown } } }).properties.deep
    let levels = 0
    for (; node.items !== undefined; levels += 1) node = node.items as typeof node
    expect(levels).toBe(5000)
  })

  it('C037 a scoped tool is seen in its scope and below, nowhere else [core-7.13]', () => {
    const agent = tree.create('agent')
    const child = tree.create('child', agent)
    const other = tree.create('other')
    registerAll(agent, 'mine')
    expect(registry.lookup('mine', agent)?.name).toBe('mine')
    expect(registry.lookup('mine', child)?.name).toBe('mine')
    expect(registry.lookup('mine', other)).toBeUndefined()
    expect(registry.lookup('mine')).toBeUndefined()
    expect(registry.lookup('toString', agent)).toBeUndefined()
  })

  it.each(['scoped first', 'global first'])('C038 shadows in either order: %s [core-7.4.shadow]', (order) => {
    const agent = tree.create('agent')
    const scoped = bareTool('same', { description: 'scoped' })
    const global = bareTool('same', { description: 'global' })
    if (order === 'scoped first') registry.register(agent, scoped)
    registry.register(tree.global, global)
    if (order === 'global first') registry.register(agent, scoped)
    expect(registry.lookup('same', agent)?.description).toBe('scoped')
    expect(registry.lookup('same', tree.create('child', agent))?.description).toBe('scoped')
    expect(registry.lookup('same')?.description).toBe('global')
    expect(names(agent)).toEqual(['same'])
  })

  it('keeps the position of what is shadowed, and appends what is new (core.md §7.3) [core-7.3.1] [core-7.11.order]', () => {
    const parent = tree.create('parent')
    const self = tree.create('self', parent)
    registerAll(tree.global, 'a', 'b', 'c')
    registerAll(parent, 'd', 'b')
    registerAll(self, 'e', 'a')
    expect(names(self)).toEqual(['a', 'b', 'c', 'd', 'e'])
    expect(registry.view(self).map((tool) => tool === registry.lookup(tool.name, self))).not.toContain(false)
  })

  it('appends an own tool whose inherited namesake is masked (core.md §7.3, step 4) [core-7.3.4]', () => {
    const self = tree.create('self')
    registerAll(tree.global, 'a', 'b')
    registry.restrict(self, { deny: ['a'] })
    registerAll(self, 'a')
    expect(names(self)).toEqual(['b', 'a'])
  })

  it("an ancestor's mask reaches what descendants inherit, also the ancestor's own tools (core.md §7.3, step 3) [core-7.3.3] [core-7.5.descendants]", () => {
    const parent = tree.create('parent')
    const child = tree.create('child', parent)
    registerAll(tree.global, 'read', 'bash')
    registerAll(parent, 'capture')
    registry.restrict(parent, { allow: ['read'] })
    expect(names(parent)).toEqual(['read', 'capture'])
    expect(names(child)).toEqual(['read'])
    expect(registry.lookup('capture', child)).toBeUndefined()
    registry.restrict(child, { deny: ['read'] })
    expect(names(child)).toEqual([])
    expect(names(parent)).toEqual(['read', 'capture'])
  })
})

describe('modes (core.md §7.7 to §7.9)', () => {
  it('code-mode case 2: native hides the transport, from lookup and catalogue [core-7.8.transport]', () => {
    registerAll(tree.global, 'echo')
    expect(registry.lookup('run_code')).toBeUndefined()
    expect(names()).toEqual(['echo'])
  })

  it('code-mode case 6: a mode is per agent, and restored when its declaration is undone [core-7.3.5] [core-7.8.catalogue] [core-7.7.misuse]', () => {
    registerAll(tree.global, 'echo')
    const a = tree.create('a')
    const b = tree.create('b')
    const undo = registry.presentAs(a, 'code')
    expect(names(a)).toEqual(['echo', 'run_code'])
    expect(registry.lookup('run_code', a)?.name).toBe('run_code')
    expect(registry.isCollapsed('echo', a)).toBe(true)
    expect(registry.lookup('run_code', b)).toBeUndefined()
    expect(registry.isCollapsed('echo', b)).toBe(false)
    expect(() => registry.presentAs(a, 'both')).toThrow('"code"')
    undo()
    expect(registry.effectiveMode(a)).toBe('native')
    expect(() => registry.presentAs(tree.global, 'code')).toThrow('presentAs')
  })

  it('C045 a child inherits the mode, its own declaration wins, and a new one is accepted after the undo [core-7.7.nearest] [core-7.7.undo]', () => {
    const parent = tree.create('parent')
    const child = tree.create('child', parent)
    const undo = registry.presentAs(parent, 'code')
    expect(registry.effectiveMode(child)).toBe('code')
    registry.presentAs(child, 'native')
    expect(registry.effectiveMode(child)).toBe('native')
    expect(registry.effectiveMode(parent)).toBe('code')
    undo()
    expect(registry.effectiveMode(parent)).toBe('native')
    registry.presentAs(parent, 'both')
    expect(registry.effectiveMode(parent)).toBe('both')
  })

  it('refuses a mode that does not exist [core-7.7.mode]', () => {
    const scope = tree.create('a')
    expect(() => registry.presentAs(scope, 'constructor' as Mode)).toThrow('native, code, both')
    expect(registry.effectiveMode(scope)).toBe('native')
  })

  it('collapses direct calls of visible tools under code alone (core.md §7.9) [core-7.9.both]', () => {
    const token = Symbol('outer')
    registerAll(tree.global, 'echo', 'hidden')
    const scope = tree.create('a')
    registry.restrict(scope, { deny: ['hidden'] })
    mode = 'both'
    expect(registry.isCollapsed('echo', scope)).toBe(false)
    mode = 'code'
    expect(registry.isCollapsed('echo', scope)).toBe(true)
    expect(registry.isCollapsed('echo')).toBe(true)
    expect(registry.isCollapsed('echo', scope, token)).toBe(false)
    expect(registry.isCollapsed('run_code', scope)).toBe(false)
    expect(registry.isCollapsed('hidden', scope)).toBe(false)
    expect(registry.isCollapsed('ghost', scope)).toBe(false)
  })

  it('without code mode mounted run_code is unknown, and comes with the transport', () => {
    let transport: ToolDefinition | undefined
    registry = new Registry({ tree, defaultMode: () => 'both', transport: () => transport })
    registerAll(tree.global, 'echo')
    expect(registry.lookup('run_code')).toBeUndefined()
    expect(names()).toEqual(['echo'])
    transport = bareTool('run_code')
    expect(registry.lookup('run_code')).toBe(transport)
    expect(names()).toEqual(['echo', 'run_code'])
  })

  it('is native unless configured [core-7.7.nearest]', () => {
    registry = new Registry({ tree })
    expect(registry.effectiveMode()).toBe('native')
    expect(registry.lookup('run_code')).toBeUndefined()
  })
})
