import { expect, it } from 'vitest'
import { Scope } from '../../server/scopes/scope.ts'
import { NamedSlot, Slot, slotKey } from '../../server/scopes/slots.ts'

it('keeps registrations in order, prepended ones first (core.md §9.1)', () => {
  const slot = new Slot<string>()
  slot.add('b')
  slot.add('c')
  slot.add('a', { prepend: true })
  expect(slot.values()).toEqual(['a', 'b', 'c'])
  expect(slot.size).toBe(3)
})

it('takes back exactly one registration, once (core.md §11.3)', () => {
  const slot = new Slot<string>()
  const undo = slot.add('same')
  slot.add('same')
  expect(undo()).toBe(true)
  expect(slot.values()).toEqual(['same'])
  expect(undo()).toBe(false)
  expect(slot.values()).toEqual(['same'])
})

it('gives the values of this moment: later changes do not touch them', () => {
  const slot = new Slot<string>()
  const undo = slot.add('a')
  const before = slot.values()
  slot.add('b')
  undo()
  expect(before).toEqual(['a'])
  expect(slot.values()).toEqual(['b'])
})

it('keeps named registrations by name, in order; an old undo spares a newer registration (core.md §6.3)', () => {
  const slot = new NamedSlot<object>()
  const [first, second] = [{}, {}]
  const undo = slot.add('constructor', first)
  slot.add('b', {})
  expect(slot.get('constructor')).toBe(first)
  expect(slot.get('toString')).toBeUndefined()
  expect(undo()).toBe(true)
  slot.add('constructor', second)
  expect(undo()).toBe(false)
  expect([...slot.entries()].map(([name]) => name)).toEqual(['b', 'constructor'])
})

it('clears a scope of every kind of registration, and old undos do nothing afterwards (core.md §6.4)', () => {
  const listed = slotKey<string>('listed')
  const named = slotKey<object>('named')
  const scope = new Scope('a')
  const undoListed = scope.slot(listed).add('x')
  const undoNamed = scope.named(named).add('x', {})
  expect(scope.slot(listed)).toBe(scope.slot(listed))
  expect(scope.named(named)).toBe(scope.named(named))
  expect(scope.slot(slotKey<string>('listed')).size).toBe(0)
  scope.clear()
  expect(scope.slot(listed).values()).toEqual([])
  expect(scope.named(named).get('x')).toBeUndefined()
  expect(undoListed()).toBe(false)
  expect(undoNamed()).toBe(false)
})
