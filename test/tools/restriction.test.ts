import { beforeEach, describe, expect, it } from 'vitest'
import type { Scope } from '../../server/scopes/scope.ts'
import { ScopeTree } from '../../server/scopes/scope-tree.ts'
import { Registry } from '../../server/tools/registry.ts'
import type { Mask } from '../../server/tools/restriction.ts'
import { bareTool } from '../helpers/bare-tool.ts'

let tree: ScopeTree
let registry: Registry
let agent: Scope

beforeEach(() => {
  tree = new ScopeTree()
  registry = new Registry({ tree, transport: bareTool('run_code') })
  agent = tree.create('agent')
})

const names = (scope?: Scope) => registry.schemas(scope).map((schema) => schema.name)
const registerAll = (scope: Scope, ...tools: string[]) =>
  tools.forEach((name) => registry.register(scope, bareTool(name)))

it('C039 an allow mask hides the rest of what is inherited, and nothing of its own [core-7.5.allow-none] [core-7.3.4]', () => {
  registerAll(tree.global, 'read', 'bash')
  registerAll(agent, 'capture')
  const undo = registry.restrict(agent, { allow: ['read'] })
  expect(names(agent)).toEqual(['read', 'capture'])
  expect(registry.lookup('bash', agent)).toBeUndefined()
  expect(registry.lookup('read', agent)?.name).toBe('read')
  expect(names()).toEqual(['read', 'bash'])
  undo()
  registry.restrict(agent, { allow: [] })
  expect(names(agent)).toEqual(['capture'])
})

it('C040 masks are live: deny lets later tools through, allow keeps them out [core-7.5.live]', () => {
  const a = tree.create('a')
  const d = tree.create('d')
  registerAll(tree.global, 'read', 'bash')
  registry.restrict(d, { deny: ['bash'] })
  registry.restrict(a, { allow: ['read'] })
  registerAll(tree.global, 'web')
  registerAll(a, 'local')
  registerAll(d, 'local')
  expect(names(d)).toEqual(['read', 'web', 'local'])
  expect(names(a)).toEqual(['read', 'local'])
})

it('C041 masks intersect, lift independently, and copy what they were given [core-7.5.intersect] [core-7.5.copied]', () => {
  registerAll(tree.global, 'a', 'b', 'c')
  const allow = ['a', 'b']
  const deny = ['b']
  const lift = registry.restrict(agent, { allow })
  registry.restrict(agent, { deny })
  allow.push('c')
  deny.pop()
  expect(names(agent)).toEqual(['a'])
  lift()
  lift()
  expect(names(agent)).toEqual(['a', 'c'])
})

describe('C042 misuse (core.md §7.5)', () => {
  const restrict =
    (mask: Mask, scope = agent) =>
    () =>
      registry.restrict(scope, mask)

  beforeEach(() => {
    registerAll(tree.global, 'read', 'bash')
    registerAll(agent, 'own')
  })

  it('is a plain error each time, in the order of the rules [core-7.5.misuse] [core-7.5.own] [core-30.plain-error]', () => {
    expect(restrict({}, tree.global)).toThrow('needs a scope')
    expect(restrict({ allow: ['read'] }, tree.global)).toThrow('needs a scope')
    expect(restrict({})).toThrow('allow list or a deny list')
    expect(restrict({ allow: ['run_code', 'ghost'] })).toThrow('"run_code" cannot be restricted')
    expect(restrict({ deny: ['run_code'] })).toThrow('"run_code" cannot be restricted')
    expect(restrict({ deny: ['own'] })).toThrow('"own"')
    expect(restrict({ allow: 'read' as unknown as string[] })).toThrow('array of tool names')
    expect(restrict({ deny: [1] as unknown as string[] })).toThrow('array of tool names')
    expect(names(agent)).toEqual(['read', 'bash', 'own'])
  })

  it('lists all unknown names and the known ones, sorted [core-7.5.unknown]', () => {
    expect(restrict({ allow: ['read', 'ghost'], deny: ['constructor'] })).toThrow(
      'no tool named "ghost", "constructor"; it inherits: bash, read'
    )
    const lonely = new ScopeTree()
    const empty = new Registry({ tree: lonely })
    expect(() => empty.restrict(lonely.create('x'), { allow: ['read'] })).toThrow('it inherits: (none)')
  })

  it('a name hidden by another mask is still restrictable; so is what an ancestor owns [core-7.5.hidden] [core-7.3.2]', () => {
    registry.restrict(agent, { allow: [] })
    expect(restrict({ deny: ['read'] })).not.toThrow()
    expect(restrict({ deny: ['own'] }, tree.create('child', agent))).not.toThrow()
  })

  it('a stored mask comes back with names that are not there yet', () => {
    registry.restrict(agent, { deny: ['later'] }, { unknownNames: 'keep' })
    registerAll(tree.global, 'later')
    expect(names(agent)).toEqual(['read', 'bash', 'own'])
    expect(() => registry.restrict(agent, { deny: ['run_code'] }, { unknownNames: 'keep' })).toThrow('run_code')
  })
})

it('code-mode case 4: an allow list that omits run_code does not hide it', () => {
  registerAll(tree.global, 'echo', 'add')
  registry.restrict(agent, { allow: ['echo'] })
  registry.presentAs(agent, 'code')
  expect(names(agent)).toEqual(['echo', 'run_code'])
  expect(registry.lookup('run_code', agent)?.name).toBe('run_code')
})
