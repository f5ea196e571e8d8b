import { camelCase, isIdentifier, NameAllocator } from './sdk-names.ts'
import { pythonSection } from './sdk-instructions.ts'
import { typingSymbols, bitOf } from './sdk-python-expression.ts'
import { commentLine, docstring } from './sdk-python-text.ts'
import { PythonTypes } from './sdk-python-types.ts'
import { joinComment } from './sdk-shape.ts'
import { shapeTools, type SdkTool, type ShapedTool } from './sdk-tool.ts'

const callError = 'class ToolCallError(Exception):\n    toolName: str'

/** The text of the section `tools:sdk` for programs in Python (code-mode.md §4): instructions, then the declarations. */
export const renderPythonSdk = (tools: readonly SdkTool[]): string => pythonSection(pythonDeclarations(tools))

/**
 * The declarations of the tools in Python (code-mode.md §4.4): the same text, byte for byte, for the same set of tools, and CPython
 * can parse it. Never throws because of a schema.
 */
export function pythonDeclarations(tools: readonly SdkTool[]): string {
  const names = new NameAllocator([...typingSymbols, 'ToolCallError', 'Tools'])
  const types = new PythonTypes((base) => names.allocate(base))
  const members = shapeTools(tools).map((tool) => writeMember(tool, types))
  // A comment is not a statement: a class of comments alone does not parse.
  const body = members.some(({ isMethod }) => isMethod) ? '' : '    pass\n'
  const used = types.symbols | bitOf('Protocol')
  return [
    `from typing import ${typingSymbols.filter((symbol) => (used & bitOf(symbol)) !== 0).join(', ')}`,
    callError,
    ...types.declarations,
    `class Tools(Protocol):\n${body}${members.map(({ text }) => text).join('')}`.trimEnd(),
    'tools: Tools'
  ].join('\n\n')
}

function writeMember(tool: ShapedTool, types: PythonTypes): { text: string; isMethod: boolean } {
  const base = camelCase(tool.name)
  const args = types.write(tool.args, `${base}Args`)
  const output = types.write(tool.output, `${base}Output`)
  const comment = joinComment(tool.description, rulesOf(tool))
  if (!isIdentifier(tool.name) || tool.name.startsWith('_')) {
    const head = `    # tools[${JSON.stringify(tool.name)}](args: ${args}) -> ${output}\n`
    return { text: head + commentLine(comment, '    ').replace('# ', '#   '), isMethod: false }
  }
  const end = comment === '' ? ' ...' : `\n        ${docstring(comment)}`
  return { text: `    async def ${tool.name}(self, args: ${args}) -> ${output}:${end}\n`, isMethod: true }
}

function rulesOf({ args, output }: ShapedTool): string | undefined {
  const rules = [args.rules, output.rules === undefined ? undefined : `result: ${output.rules}`].filter(
    (rule) => rule !== undefined
  )
  return rules.length === 0 ? undefined : rules.join(', ')
}
