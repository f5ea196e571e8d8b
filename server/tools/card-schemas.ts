import type { JsonSchema, ParameterMap, ParameterSpec } from '../schema/spec.ts'
import { compileValue } from '../schema/compile.ts'

const required = true
const open = { type: 'object', additionalProperties: true } as const
const text = { type: 'string' } as const
const needText = { type: 'string', required } as const
const needInteger = { type: 'integer', required } as const
const needBoolean = { type: 'boolean', required } as const

const content = { type: 'array', items: { ...open, properties: { type: needText } } } as const
const locations = {
  type: 'array',
  items: { ...open, properties: { path: needText, line: { type: 'integer' } } }
} as const
const diff = {
  ...open,
  properties: { path: needText, oldText: { oneOf: [text, { type: 'null' }], required }, newText: needText }
} as const
const diffs = { type: 'array', items: diff, required } as const
const match = { ...open, properties: { lineNumber: needInteger, line: needText } } as const
const file = { ...open, properties: { path: needText, matches: { type: 'array', items: match, required } } } as const
const line = { ...open, properties: { number: needInteger, text: needText } } as const
const source = { ...open, properties: { url: needText, title: text, snippet: text, publishedAt: text } } as const
const kinds = ['read', 'edit', 'delete', 'move', 'search', 'execute', 'fetch', 'other'] as const

/** What each kind of card holds (backends.md §1.1), by `card`, or `card/shape` and `card/kind` where one card has several. */
export const callCards = vocabulary({
  generic: {
    title: needText,
    kind: { type: 'string', enum: kinds },
    rawInput: { type: 'json' },
    content,
    locations
  },
  terminal: { title: needText, description: text, cwd: text },
  diff: { title: needText, diffs, locations }
})

/** The same for the cards of settled calls. */
export const resultCards = vocabulary({
  generic: { title: text, content },
  terminal: { title: text, output: text, exitCode: { type: 'integer' }, signal: text },
  diff: { title: text, diffs },
  'search/matches': {
    title: text,
    files: { type: 'array', items: file, required },
    truncated: needBoolean,
    total: needInteger
  },
  'search/paths': {
    title: text,
    paths: { type: 'array', items: text, required },
    truncated: needBoolean,
    total: needInteger
  },
  read: {
    title: text,
    path: needText,
    offset: needInteger,
    lines: { type: 'array', items: line, required },
    totalLines: needInteger,
    lang: text,
    content: text
  },
  'web/search': {
    title: text,
    sources: { type: 'array', items: source, required },
    truncated: needBoolean,
    answer: text
  },
  'web/fetch': { title: text, url: needText, statusCode: needInteger, truncated: needBoolean }
})

function vocabulary(cards: Record<string, ParameterMap>): ReadonlyMap<string, JsonSchema> {
  return new Map(
    Object.entries(cards).map(([key, members]): [string, JsonSchema] => {
      const card: ParameterSpec = { type: 'string', const: key.replace(/\/.*/, ''), required }
      return [key, compileValue({ ...open, properties: { card, ...members } })]
    })
  )
}
