import { describe, expect, it } from 'vitest'
import { shapesOf } from '../../server/code-runtime/bindings.ts'

const binding = (global: string, name = 'E', memberNameProperty = 'member') => ({
  global,
  functions: {},
  errorClass: { name, memberNameProperty }
})

describe('the names that bindings inject (§5)', () => {
  it('are identifiers of both languages, free, and used once', () => {
    for (const global of [
      'a b',
      '1a',
      '$a',
      'é',
      '',
      'class',
      'await',
      'None',
      'lambda',
      'console',
      '__builtins__',
      '__program__',
      'arguments'
    ]) {
      expect(() => shapesOf([binding(global)]), global).toThrow(TypeError)
      expect(() => shapesOf([binding('tools', global)]), global).toThrow(TypeError)
    }
    expect(() => shapesOf([binding('a'), binding('b')])).toThrow('twice')
    expect(() => shapesOf([binding('a', 'a')])).toThrow('twice')
  })

  it('leave the members of errors alone', () => {
    for (const member of ['', 'name', 'message', 'stack', 'args', 'with_traceback', 'add_note', '__dict__']) {
      expect(() => shapesOf([binding('a', 'E', member)]), member).toThrow(TypeError)
    }
  })

  it('leave the functions free, which are those of the object itself', () => {
    const functions = Object.create({ inherited: async () => 1 }) as Record<string, () => Promise<unknown>>
    for (const name of ['__proto__', 'a b', ''])
      Object.defineProperty(functions, name, { value: async () => 1, enumerable: true })
    expect(shapesOf([{ global: 'tools', functions }])).toEqual([
      { global: 'tools', names: ['__proto__', 'a b', ''], errorClass: undefined }
    ])
  })
})
