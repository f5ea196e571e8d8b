import { describe, expect, it } from 'vitest'
import { wildcard } from '../../../plugins/policies/wildcard.ts'

describe('wildcard', () => {
  it.each([
    ['read', 'read', true],
    ['read', 'read_image', false],
    ['read*', 'read', true],
    ['*_write', 'todo_write', true],
    ['mcp__*__get_*', 'mcp__a__b__get_x', true],
    ['mcp__*__get_*', 'mcp__get_x', false],
    ['a*a', 'a', false],
    ['ab*bc', 'abc', false],
    ['*', '', true],
    ['*', 'a\nb', true],
    ['**', 'x', true],
    ['', '', true],
    ['', 'x', false],
    ['a.c', 'abc', false],
    ['[ab]', 'a', false],
    ['A', 'a', false],
    ['*x*x*', 'x', false],
    ['*x*x*', 'axbxc', true]
  ])('%j over %j is %s', (pattern, text, isMatch) => {
    expect(wildcard(pattern)(text)).toBe(isMatch)
  })
})
