import type { ToolDefinition } from '../../server/tools/definition.ts'

/** A definition as one registers without defineTool: open parameters, a string value rendered as its own text. */
export const bareTool = (name: string, members: Partial<ToolDefinition> = {}): ToolDefinition => ({
  name,
  description: `does ${name}`,
  parameters: { type: 'object', properties: {} },
  output: { schema: { type: 'string' }, render: (_args, value) => [{ type: 'text', text: value as string }] },
  execute: () => `${name}-ok`,
  ...members
})
