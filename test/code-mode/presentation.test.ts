import { describe, expect, it } from 'vitest'
import { sdkSections } from '../../server/code-mode/sdk-section.ts'
import { createPromptAssembly, modes, type Prompt } from '../../server/tools/presentation.ts'
import { bareTool } from '../helpers/bare-tool.ts'
import { CodeModeFixture, scripted, textOf } from '../helpers/code-mode-fixture.ts'
import { codeOf, messageIn } from '../helpers/pipeline-fixture.ts'

const runtime = scripted(async () => undefined)

function promptOf(fixture: CodeModeFixture, scope = fixture.agent.scope): Prompt {
  const assemble = createPromptAssembly({
    catalogue: fixture.registry,
    sections: ({ mode, tools }) => sdkSections({ mode, language: fixture.runtime?.language, tools })
  })
  return assemble({ scope })
}

const wire = ({ tools }: Prompt): string[] => tools.map(({ name }) => name)
const sectionNames = ({ sections }: Prompt): string[] => sections.map(({ name }) => name)
const masked = (fixture: CodeModeFixture): CodeModeFixture => {
  fixture.registry.restrict(fixture.agent.scope, { allow: ['echo', 'add'] })
  return fixture
}

describe('how tools are presented (code-mode.md §2, §3)', () => {
  it('C001 code: run_code alone is on the wire, with both arguments in schema and words', () => {
    const prompt = promptOf(new CodeModeFixture({ runtime }))
    expect(wire(prompt)).toEqual(['run_code'])
    const [{ description, parameters }] = prompt.tools as [Prompt['tools'][number]]
    expect(parameters).toMatchObject({
      type: 'object',
      properties: { code: { type: 'string' }, description: { type: 'string' } },
      required: ['code', 'description']
    })
    for (const word of ['`code`', '`description`', 'TypeScript']) expect(description).toContain(word)
    expect(sectionNames(prompt)).toEqual(['tools:code-only', 'tools:sdk'])
  })

  it('C002 native: no transport, no sections, no runtime needed', async () => {
    const fixture = masked(new CodeModeFixture({ mode: 'native' }))
    expect(wire(promptOf(fixture))).toEqual(['add', 'echo'])
    expect(sectionNames(promptOf(fixture))).toEqual([])
    expect(codeOf(await fixture.run('return 1'))).toBe('UNKNOWN_TOOL')
    expect(fixture.events).toEqual([])
  })

  it('C003 both: native schemas, then run_code; the rule is empty; direct calls run', async () => {
    const fixture = masked(new CodeModeFixture({ mode: 'both', runtime }))
    const prompt = promptOf(fixture)
    expect(wire(prompt)).toEqual(['add', 'echo', 'run_code'])
    expect(prompt.sections.map(({ name, text }) => [name, text === ''])).toEqual([
      ['tools:code-only', true],
      ['tools:sdk', false]
    ])
    expect(textOf(await fixture.call('echo', { value: 'x' }))).toBe('echo:x')
  })

  it.each(modes)('C004 under %s the name is reserved and cannot be masked', async (mode) => {
    const fixture = new CodeModeFixture({ mode, runtime: scripted(async (tools) => Object.keys(tools)) })
    const { registry, agent, tree } = fixture
    for (const scope of [tree.global, agent.scope]) {
      expect(() => registry.register(scope, bareTool('run_code'))).toThrow(/reserved/)
    }
    expect(() => registry.restrict(agent.scope, { allow: ['run_code'] })).toThrow(/run_code/)
    expect(() => registry.restrict(agent.scope, { deny: ['run_code'] })).toThrow(/run_code/)
    registry.restrict(agent.scope, { allow: ['echo'] })
    if (mode === 'native') return
    expect(await fixture.run('')).toMatchObject({ isError: false, value: { result: ['echo'] } })
    const sdk = promptOf(fixture).sections[1]!.text
    expect(sdk).toContain('  echo:')
    expect(sdk).not.toContain('  add:')
  })

  it('C006 the mode is each agent’s own', async () => {
    const fixture = new CodeModeFixture({ mode: 'native', runtime: scripted(async () => 1) })
    const { registry, tree } = fixture
    const [a, b] = ['a', 'b'].map((id) => ({ id, scope: tree.create(id) })) as [
      typeof fixture.agent,
      typeof fixture.agent
    ]
    const undo = registry.presentAs(a.scope, 'code')
    expect(wire(promptOf(fixture, a.scope))).toEqual(['run_code'])
    expect(wire(promptOf(fixture, b.scope))).not.toContain('run_code')
    expect(codeOf(await fixture.call('echo', { value: 'x' }, { agent: a }))).toBe('UNKNOWN_TOOL')
    expect(messageIn(await fixture.call('echo', { value: 'x' }, { agent: a }))).toContain('run_code')
    expect(codeOf(await fixture.run('', { agent: a }))).toBeUndefined()
    expect(codeOf(await fixture.call('echo', { value: 'x' }, { agent: b }))).toBeUndefined()
    expect(codeOf(await fixture.run('', { agent: b }))).toBe('UNKNOWN_TOOL')
    expect(() => registry.presentAs(a.scope, 'both')).toThrow(/"code"/)
    expect(() => registry.presentAs(tree.global, 'code')).toThrow()
    undo()
    expect(codeOf(await fixture.call('echo', { value: 'x' }, { agent: a }))).toBeUndefined()
  })

  it('C007 without a runtime the assembly fails and a call is an error result', async () => {
    const fixture = new CodeModeFixture({ mode: 'both' })
    expect(() => promptOf(fixture)).toThrow(expect.objectContaining({ code: 'CODE_RUNTIME_MISSING' }))
    expect(() => promptOf(fixture)).toThrow(/"both"/)
    const result = await fixture.run('return 1')
    expect([result.isError, codeOf(result)]).toEqual([true, 'none'])
    // Whoever reads the catalogue gets the TypeScript text.
    expect(fixture.registry.schemas(fixture.agent.scope).at(-1)?.description).toContain('TypeScript')
  })

  it.each(['ruby', 'constructor', '__proto__'])('C007 a runtime that speaks %s fails at assembly', async (language) => {
    const fixture = new CodeModeFixture({ mode: 'both', runtime: { ...runtime, language } })
    for (const known of ['typescript', 'python']) expect(() => promptOf(fixture)).toThrow(known)
    expect(() => fixture.registry.lookup('run_code', fixture.agent.scope)?.description).toThrow(/typescript/)
  })

  it('the texts follow the runtime that is mounted when they are read', () => {
    const fixture = new CodeModeFixture({ runtime })
    fixture.runtime = { ...runtime, language: 'python' }
    const [tool] = promptOf(fixture).tools
    expect(tool!.description).toContain('Python')
    expect(JSON.stringify(tool!.parameters)).toContain('Python')
    expect(promptOf(fixture).sections[1]!.text).toContain('```python')
  })
})
