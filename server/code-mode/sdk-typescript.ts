import { camelCase, NameAllocator } from './sdk-names.ts'
import { typescriptSection } from './sdk-instructions.ts'
import { joinComment } from './sdk-shape.ts'
import { shapeTools, type SdkTool, type ShapedTool } from './sdk-tool.ts'
import { jsDoc, memberName, writeType, type NamedTypes } from './sdk-typescript-types.ts'

const jsonValue = 'type JsonValue = null | boolean | number | string | JsonValue[] | { [key: string]: JsonValue }'
const callError = `declare class ToolCallError extends Error {
  readonly name: "ToolCallError";
  readonly toolName: ToolName;
}`
const callable = `declare const tools: {
  [K in ToolName]: (args: ToolArgsMap[K]) => Promise<ToolOutputMap[K]>;
};`

/** The text of the section `tools:sdk` for programs in TypeScript (code-mode.md §4): instructions, then the declarations. */
export const renderTypescriptSdk = (tools: readonly SdkTool[]): string =>
  typescriptSection(typescriptDeclarations(tools))

/**
 * The declarations of the tools in TypeScript (code-mode.md §4.3): the same text, byte for byte, for the same set of tools. Never
 * throws because of a schema.
 */
export function typescriptDeclarations(tools: readonly SdkTool[]): string {
  const names = new NameAllocator(['JsonValue', 'ToolArgsMap', 'ToolOutputMap', 'ToolName', 'ToolCallError'])
  const named: NamedTypes = { texts: [], nameOf: new Map(), allocate: (base) => names.allocate(base) }
  const shaped = shapeTools(tools)
  const args = shaped.map((tool) => argsMember(tool, named))
  const outputs = shaped.map((tool) => outputMember(tool, named))
  return [
    jsonValue,
    ...named.texts,
    declareInterface('ToolArgsMap', args),
    declareInterface('ToolOutputMap', outputs),
    'type ToolName = keyof ToolOutputMap',
    callError,
    callable
  ].join('\n\n')
}

function argsMember({ name, description, args }: ShapedTool, named: NamedTypes): string {
  const comment = jsDoc(joinComment(description, args.rules), '  ')
  return `${comment}  ${memberName(name)}: ${writeType(args, `${typeBase(name)}Args`, 1, named)};\n`
}

function outputMember({ name, output }: ShapedTool, named: NamedTypes): string {
  const comment = jsDoc(output.rules ?? '', '  ')
  return `${comment}  ${memberName(name)}: ${writeType(output, `${typeBase(name)}Output`, 1, named)};\n`
}

const declareInterface = (name: string, members: string[]): string =>
  members.length === 0 ? `interface ${name} {}` : `interface ${name} {\n${members.join('')}}`

const typeBase = (toolName: string): string => camelCase(toolName, 'ascii')
