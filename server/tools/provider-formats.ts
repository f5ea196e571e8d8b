import { createHash } from 'node:crypto'
import type { JsonObject } from '../json/lossless.ts'
import type { JsonSchema } from '../schema/spec.ts'
import type { ToolSchema } from './definition.ts'
import { type Dialect, lowerSchema } from './schema-lowering.ts'

/** The shapes in which a catalogue can be asked for (api.md §3). */
export const providerFormats = ['native', 'openai', 'openai-responses', 'anthropic', 'gemini', 'mcp'] as const
export type ProviderFormat = (typeof providerFormats)[number]

/** A difference between what a tool declares and what the provider is told: where, and what was done about it. */
export interface FormatNote {
  tool: string
  path: string
  note: string
}

// A schema of thousands of levels must not answer with megabytes of notes.
const maxNotes = 50
const maxPathChars = 200

interface Format {
  names?: RegExp
  dialect?: Dialect
  wrap: (name: string, description: string, parameters: JsonSchema) => JsonObject
}

const combinators = ['oneOf', 'anyOf', 'allOf', 'not', 'enum', 'const', '$ref', 'if', 'then', 'else']

// As the API answers: "'allOf' is not permitted", "schema must … not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level".
const openAiRefuses = new Set(
  'oneOf allOf not if then else dependentRequired dependentSchemas patternProperties unevaluatedProperties'.split(' ')
)
const openAi: Pick<Format, 'names' | 'dialect'> = {
  names: /^[a-zA-Z0-9_-]{1,64}$/,
  dialect: { takes: (keyword) => !openAiRefuses.has(keyword), rootRefuses: combinators }
}

// The members of its Schema object; anything else is refused as an unknown name.
const geminiTakes = new Set(
  (
    'type format title description nullable enum maxItems minItems properties required minProperties maxProperties ' +
    'minLength maxLength pattern example anyOf propertyOrdering default items minimum maximum'
  ).split(' ')
)

const formats: Readonly<Record<ProviderFormat, Format>> = {
  native: { wrap: (name, description, parameters) => ({ name, description, parameters }) },
  mcp: { wrap: (name, description, inputSchema) => ({ name, description, inputSchema }) },
  openai: {
    ...openAi,
    wrap: (name, description, parameters) => ({ type: 'function', function: { name, description, parameters } })
  },
  'openai-responses': {
    ...openAi,
    // Left out, `strict` makes every optional argument a required one.
    wrap: (name, description, parameters) => ({ type: 'function', name, description, parameters, strict: false })
  },
  anthropic: {
    names: /^[a-zA-Z0-9_-]{1,64}$/,
    dialect: {
      takes: (keyword) => keyword !== '$ref' && keyword !== '$defs' && keyword !== 'definitions',
      rootRefuses: combinators.filter((keyword) => keyword !== 'not' && keyword !== 'enum'),
      inlinesRefs: true,
      propertyNames: /^[a-zA-Z0-9_.-]{1,64}$/
    },
    wrap: (name, description, input_schema) => ({ name, description, input_schema })
  },
  gemini: {
    names: /^[a-zA-Z_][a-zA-Z0-9_.-]{0,63}$/,
    dialect: {
      takes: (keyword) => geminiTakes.has(keyword),
      rootRefuses: combinators,
      inlinesRefs: true,
      isOpenApi: true
    },
    wrap: (name, description, parameters) => ({ name, description, parameters })
  }
}

/**
 * Writes a catalogue as a provider's API takes it. What the provider has no word for is lowered, never silently dropped: keywords
 * are told in the nearest description, a name it refuses is sent as another (the note tells which, for the way back), and every
 * such change has a note.
 */
export function formatSchemas(
  tools: readonly ToolSchema[],
  format: ProviderFormat
): { schemas: JsonObject[]; notes: FormatNote[] } {
  const { names, dialect, wrap } = formats[format]
  const notes: FormatNote[] = []
  const schemas = tools.map((tool) => {
    let count = 0
    const note = (path: string, text: string): void => {
      count += 1
      if (count <= maxNotes) notes.push({ tool: tool.name, path: path.slice(0, maxPathChars), note: text })
    }
    const name = names === undefined || names.test(tool.name) ? tool.name : acceptableName(tool.name)
    if (name !== tool.name) note('name', `sent as ${JSON.stringify(name)}`)
    const parameters = dialect === undefined ? tool.parameters : lowerSchema(tool.parameters, dialect, note)
    if (count > maxNotes) notes.push({ tool: tool.name, path: 'parameters', note: `${count - maxNotes} more changes` })
    return wrap(name, tool.description, parameters)
  })
  return { schemas, notes }
}

/** The same name always gives the same one, and two names never give one: by the rule of MCP names (core.md §6.2). */
function acceptableName(name: string): string {
  const hash = createHash('sha256').update(name).digest('hex').slice(0, 12)
  return `${`_${name.replaceAll(/[^A-Za-z0-9_-]/g, '_')}`.slice(0, 51)}_${hash}`
}
