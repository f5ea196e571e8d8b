import { snapshot } from '../json/lossless.ts'
import { assertSupportedSchema } from '../schema/supported.ts'
import type { JsonSchema } from '../schema/spec.ts'
import { transportName } from '../tools/reserved-names.js'
import { readSchema } from './sdk-schema.ts'
import type { Shape } from './sdk-shape.ts'

/** What the SDK text is made from. Any name goes, also those that registration refuses (code-mode.md §4.1). */
export interface SdkTool {
  name: string
  description: string
  parameters: JsonSchema
  output: JsonSchema
  /**
   * The schemas come from any generator (wire and MCP tools) and are rendered as far as they can be said. Otherwise they are
   * held to the supported subset (core.md §3), and outside of it the whole position is unknown.
   */
  foreign?: boolean
}

/** A tool with the shapes of its two positions. */
export interface ShapedTool {
  name: string
  description: string
  args: Shape
  output: Shape
}

/** The tools that a program can call, in code-unit order of their names, whatever order they come in. */
export function shapeTools(tools: readonly SdkTool[]): ShapedTool[] {
  return tools
    .filter((tool) => tool.name !== transportName)
    .sort((a, b) => (a.name < b.name ? -1 : a.name > b.name ? 1 : 0))
    .map(({ name, description, parameters, output, foreign = false }) => ({
      name,
      description,
      args: shapeOf(parameters, foreign),
      output: shapeOf(output, foreign)
    }))
}

// One schema that throws, cycles or lies must not take the text of every other tool with it.
function shapeOf(schema: unknown, foreign: boolean): Shape {
  try {
    const copy = snapshot(schema)
    if (!foreign) assertSupportedSchema(copy)
    return readSchema(copy)
  } catch {
    return { kind: 'unknown' }
  }
}
