import { expect, it } from 'vitest'
import { ScopeTree } from '../../server/scopes/scope-tree.ts'

it('binds a parent once, and gives the chain from the root (core.md §7.1, §7.2) [core-7.1] [core-7.2.chain]', () => {
  const tree = new ScopeTree()
  const team = tree.create('team')
  const agent = tree.create('agent', team)
  expect(agent.chain.map((scope) => scope.id)).toEqual(['global', 'team', 'agent'])
  expect(tree.get('agent')).toBe(agent)
  expect(() => tree.create('agent')).toThrow('"agent" exists already')
  expect(() => tree.create('global')).toThrow('exists already')
  expect(agent.isWithin(team)).toBe(true)
  expect(agent.isWithin(agent)).toBe(true)
  expect(team.isWithin(agent)).toBe(false)
  expect(tree.all()).toEqual([tree.global, team, agent])
  expect(tree.children(tree.global)).toEqual([team])
  expect(tree.children(agent)).toEqual([])
})

it('looks ids up as data: those of Object.prototype are free', () => {
  const tree = new ScopeTree()
  expect(tree.get('constructor')).toBeUndefined()
  expect(tree.create('__proto__')).toBe(tree.get('__proto__'))
})

it('lists a subtree deepest first', () => {
  const tree = new ScopeTree()
  const a = tree.create('a')
  tree.create('b', a)
  const c = tree.create('c', a)
  tree.create('d', c)
  const order = tree.subtree(a).map((scope) => scope.id)
  expect([...order].sort()).toEqual(['a', 'b', 'c', 'd'])
  expect(order.at(-1)).toBe('a')
  expect(order.indexOf('d')).toBeLessThan(order.indexOf('c'))
})

it('removes leaves only, and frees their ids', () => {
  const tree = new ScopeTree()
  const a = tree.create('a')
  const b = tree.create('b', a)
  expect(() => tree.remove(a)).toThrow('still has children')
  expect(() => tree.remove(tree.global)).toThrow('global scope cannot be removed')
  tree.remove(b)
  tree.remove(a)
  expect(tree.all()).toEqual([tree.global])
  expect(tree.isLive(a)).toBe(false)
  expect(() => tree.create('c', a)).toThrow('"a" is disposed')
})

it('leaves the new owner of an id alone when the old one is removed again', () => {
  const tree = new ScopeTree()
  const old = tree.create('a')
  tree.remove(old)
  const fresh = tree.create('a')
  tree.remove(old)
  expect(tree.get('a')).toBe(fresh)
  expect(tree.isLive(fresh)).toBe(true)
  expect(tree.isLive(old)).toBe(false)
})
