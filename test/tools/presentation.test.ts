import { beforeEach, describe, expect, it } from 'vitest'
import { ScopeTree } from '../../server/scopes/scope-tree.ts'
import { createPromptAssembly, type Mode, type SectionProvider } from '../../server/tools/presentation.ts'
import { Registry } from '../../server/tools/registry.ts'
import { bareTool } from '../helpers/bare-tool.ts'

let tree: ScopeTree
let registry: Registry
let mode: Mode
let sections: SectionProvider | undefined

beforeEach(() => {
  tree = new ScopeTree()
  mode = 'native'
  sections = undefined
  registry = new Registry({ tree, defaultMode: () => mode, transport: bareTool('run_code') })
})

const assemble = (request: { scope?: Parameters<Registry['view']>[0]; toolOrder?: string[] } = {}) =>
  createPromptAssembly({ catalogue: registry, ...(sections && { sections }) })(request as never)
const wire = (request?: Parameters<typeof assemble>[0]) => assemble(request).tools.map((tool) => tool.name)
const registerAll = (...tools: string[]) => tools.forEach((name) => registry.register(tree.global, bareTool(name)))

describe('C036 prompt order (core.md §7.12)', () => {
  beforeEach(() => registerAll('zulu', 'alpha', 'mike'))

  it('is that of the code units, while the catalogue keeps its own [core-7.12.sorted] [core-7.11.order]', () => {
    registerAll('Beta', '_x')
    expect(registry.schemas().map((tool) => tool.name)).toEqual(['zulu', 'alpha', 'mike', 'Beta', '_x'])
    expect(wire()).toEqual(['Beta', '_x', 'alpha', 'mike', 'zulu'])
  })

  it('follows toolOrder, the unlisted at the marker [core-7.12.rest]', () => {
    expect(wire({ toolOrder: ['zulu', '<unlisted-tools>'] })).toEqual(['zulu', 'alpha', 'mike'])
    expect(wire({ toolOrder: ['<unlisted-tools>', 'alpha'] })).toEqual(['mike', 'zulu', 'alpha'])
  })

  it('rejects an order without the marker, with duplicates, or with names that were never registered [core-7.12.marker] [core-7.12.known]', () => {
    expect(() => assemble({ toolOrder: ['zulu'] })).toThrow('<unlisted-tools>')
    expect(() => assemble({ toolOrder: ['<unlisted-tools>', '<unlisted-tools>'] })).toThrow('twice')
    expect(() => assemble({ toolOrder: ['zulu', 'zulu', '<unlisted-tools>'] })).toThrow('twice')
    expect(() => assemble({ toolOrder: ['ghost', '<unlisted-tools>'] })).toThrow('unknown tools: ghost')
    expect(() => assemble({ toolOrder: ['run_code', '<unlisted-tools>'] })).toThrow('unknown tools: run_code')
  })

  it('takes a name that a mask hides, and one of the scope itself [core-7.12.known]', () => {
    const scope = tree.create('agent')
    registry.register(scope, bareTool('own'))
    registry.restrict(scope, { deny: ['zulu'] })
    expect(wire({ scope, toolOrder: ['zulu', 'own', '<unlisted-tools>'] })).toEqual(['own', 'alpha', 'mike'])
  })

  it('knows run_code alone under code, and it too under both [core-7.12.known]', () => {
    mode = 'code'
    expect(wire({ toolOrder: ['<unlisted-tools>', 'run_code'] })).toEqual(['run_code'])
    expect(() => assemble({ toolOrder: ['zulu', '<unlisted-tools>'] })).toThrow('unknown tools: zulu')
    mode = 'both'
    expect(wire({ toolOrder: ['run_code', '<unlisted-tools>'] })).toEqual(['run_code', 'alpha', 'mike', 'zulu'])
  })
})

describe('modes (core.md §7.8; code-mode.md §3)', () => {
  beforeEach(() => registerAll('zulu', 'echo'))

  it('code-mode case 1: code gives run_code alone [core-7.8.code]', () => {
    mode = 'code'
    expect(assemble()).toMatchObject({ mode: 'code', tools: [{ name: 'run_code' }] })
    expect(wire()).toEqual(['run_code'])
  })

  it('code-mode case 3: both gives the native schemas, then run_code [core-7.8.both]', () => {
    mode = 'both'
    expect(wire()).toEqual(['echo', 'zulu', 'run_code'])
  })

  it('code-mode case 2: native works without any code mode [core-7.8.native]', () => {
    registry = new Registry({ tree })
    expect(assemble()).toMatchObject({ mode: 'native', sections: [] })
    expect(wire()).toEqual(['echo', 'zulu'])
  })

  it.each<Mode>(['code', 'both'])(
    'code-mode case 7: %s without code mode fails, naming the mode; other scopes go on [core-7.8.runtime]',
    (wanted) => {
      registry = new Registry({ tree })
      const scope = tree.create('agent')
      registry.presentAs(scope, wanted)
      expect(() => assemble({ scope })).toThrow(expect.objectContaining({ code: 'CODE_RUNTIME_MISSING' }))
      expect(() => assemble({ scope })).toThrow(`"${wanted}"`)
      expect(wire()).toEqual(['echo', 'zulu'])
    }
  )

  it('asks for sections with the visible tools but the transport, and gives them in their order', () => {
    mode = 'both'
    const scope = tree.create('agent')
    registry.restrict(scope, { deny: ['zulu'] })
    sections = ({ mode: effective, scope: asked, tools }) => [
      { name: 'tools:sdk', order: 150, text: `${effective} ${asked.id} ${tools.map((tool) => tool.name).join()}` },
      { name: 'tools:b', order: 99, text: '' },
      { name: 'tools:a', order: 99, text: '' },
      { name: 'tools:a', order: 99, text: 'again' }
    ]
    expect(assemble({ scope }).sections).toEqual([
      { name: 'tools:a', order: 99, text: '' },
      { name: 'tools:a', order: 99, text: 'again' },
      { name: 'tools:b', order: 99, text: '' },
      { name: 'tools:sdk', order: 150, text: 'both agent echo' }
    ])
  })

  it('leaves the array of its provider alone', () => {
    const fixed = Object.freeze([
      { name: 'b', order: 2, text: '' },
      { name: 'a', order: 1, text: '' }
    ])
    sections = () => fixed as never
    expect(assemble().sections.map(({ name }) => name)).toEqual(['a', 'b'])
    expect(fixed[0]?.name).toBe('b')
  })

  it('fails when the sections cannot be made [core-7.8.renderer]', () => {
    mode = 'code'
    sections = () => {
      throw new Error('no renderer for ruby')
    }
    expect(() => assemble()).toThrow('no renderer for ruby')
  })

  it('is the same text whatever the order of registration', () => {
    const before = JSON.stringify(assemble())
    const again = new ScopeTree()
    registry = new Registry({ tree: again })
    for (const name of ['echo', 'zulu']) registry.register(again.global, bareTool(name))
    expect(JSON.stringify(assemble())).toBe(before)
  })
})
