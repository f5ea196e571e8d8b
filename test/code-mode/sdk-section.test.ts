import { describe, expect, it } from 'vitest'
import { sdkLanguages, sdkRenderer, sdkSections } from '../../server/code-mode/sdk-section.ts'
import type { ToolDefinition } from '../../server/tools/definition.ts'

const definition = (name: string, more: Partial<ToolDefinition> = {}): ToolDefinition => ({
  name,
  description: `Does ${name}.`,
  parameters: { type: 'object', properties: { v: { anyOf: [{ type: 'string' }, { type: 'null' }] } } },
  output: { schema: { type: 'string' }, render: () => [] },
  execute: () => '',
  ...more
})

const tools = [definition('echo'), definition('add')]

describe('the sections of a prompt (code-mode.md §3)', () => {
  it('C002 native has none, and needs no runtime', () => {
    expect(sdkSections({ mode: 'native', language: undefined, tools })).toEqual([])
  })

  it('C001 code: the rule at 99, the declarations at 150', () => {
    const sections = sdkSections({ mode: 'code', language: 'typescript', tools })
    expect(sections.map(({ name, order }) => [name, order])).toEqual([
      ['tools:code-only', 99],
      ['tools:sdk', 150]
    ])
    expect(sections[0]!.text).toContain('run_code')
    expect(sections[1]!.text).toBe(
      sdkRenderer('typescript')(tools.map((tool) => ({ ...tool, output: tool.output.schema })))
    )
  })

  it('C003 both: the rule is empty', () => {
    const [rule, sdk] = sdkSections({ mode: 'both', language: 'python', tools })
    expect(rule).toEqual({ name: 'tools:code-only', order: 99, text: '' })
    expect(sdk!.text).toContain('```python\nfrom typing import')
  })

  it('C007 no runtime: the error names the mode', () => {
    expect(() => sdkSections({ mode: 'both', language: undefined, tools })).toThrow(/"both"/)
    expect(() => sdkSections({ mode: 'code', language: undefined, tools })).toThrow(
      expect.objectContaining({ code: 'CODE_RUNTIME_MISSING' })
    )
  })

  it.each(['ruby', 'constructor', '__proto__', 'toString', ''])(
    'C007 language %j has no renderer: the error lists those that have',
    (language) => {
      for (const known of ['typescript', 'python']) {
        expect(() => sdkSections({ mode: 'both', language, tools })).toThrow(known)
      }
    }
  )

  it('schemas of wire and MCP tools are rendered beyond the supported subset, others are unknown as a whole', () => {
    const text = sdkSections({
      mode: 'code',
      language: 'typescript',
      tools: [definition('own'), definition('wire', { validateOutput: () => [] }), definition('mcp__git__log')]
    })[1]!.text
    expect(text).toContain('  own: unknown;')
    const known = '{\n    v?: string | null;\n  } & Record<string, JsonValue>;'
    expect(text).toContain(`  mcp__git__log: ${known}`)
    expect(text).toContain(`  wire: ${known}`)
  })

  it.each(sdkLanguages)('the instructions in %s tell what a program must know (code-mode.md §4.2)', (language) => {
    const text = sdkRenderer(language)([])
    const facts = [
      '`run_code`',
      '`code`',
      '`description`',
      'body of an async function',
      'await tools.name(args)',
      'tools["odd-name"](args)',
      'lossless JSON',
      'ToolCallError'
    ]
    facts.push('toolName', 'order in which', 'cancelled', 'prints or returns', 'Images')
    facts.push(
      ...(language === 'python'
        ? ['asyncio.gather', 'plain dicts', 'static stubs']
        : ['Promise.all', 'Promise.race', 'erased', 'no `enum`', '`namespace`'])
    )
    for (const fact of facts) expect(text).toContain(fact)
    expect(text).toMatch(/^# .*\n\n/)
    expect(text.match(/^```/gm)).toHaveLength(2)
  })
})
