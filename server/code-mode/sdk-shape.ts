export type ScalarType = 'string' | 'number' | 'integer' | 'boolean' | 'null'
export type LiteralValue = string | number | boolean | null

/**
 * What a schema says of the form of a value, without the words of any language. The shapes of one schema are a graph: a
 * `reference` may lead back to a shape that holds it.
 */
export type Shape = About &
  (
    | { kind: 'scalar'; type: ScalarType }
    | { kind: 'literals'; values: LiteralValue[] }
    | { kind: 'array'; items: Shape | undefined }
    /** The first `required` items must be there; `rest` is what may follow, undefined for nothing. */
    | { kind: 'tuple'; items: Shape[]; required: number; rest: Shape | undefined }
    /** `rest`: what further members may be. */
    | { kind: 'object'; fields: Field[]; rest: Shape | 'any' | 'none' }
    | { kind: 'union'; branches: Shape[] }
    | { kind: 'intersection'; parts: Shape[] }
    /** Without a definition it is a reference that could only lead to itself, and says nothing. */
    | { kind: 'reference'; definition: Definition | undefined }
    /** Any JSON, because the schema says so. */
    | { kind: 'json' }
    /** Not to be said in a type. */
    | { kind: 'unknown' }
    | { kind: 'never' }
  )

interface About {
  description?: string | undefined
  /** Bounds, formats and other rules that types cannot say. */
  rules?: string | undefined
}

export interface Field {
  readonly name: string
  readonly required: boolean
  shape: Shape
}

/** A part of a schema that a local `$ref` leads to. */
export interface Definition {
  /** The last step of the pointer, empty for the root. */
  readonly hint: string
  shape: Shape
  /** How many places are of this shape, the one where it is written included. */
  uses: number
  /** References that stand for the whole value, with no array or object in between. */
  readonly direct: (Shape & { kind: 'reference' })[]
}

const smallText = 200
const fewValues = 8
const shortValue = 32

/**
 * Whether the definition gets a name of its own. One that is used once is written in its place, and so is a small one without parts;
 * to write others more than once could double the text with every reference in a chain of them.
 */
export function isNamed(definition: Definition): boolean {
  return definition.uses > 1 && !isSmall(definition.shape)
}

function isSmall(shape: Shape): boolean {
  if ((shape.description?.length ?? 0) + (shape.rules?.length ?? 0) > smallText) return false
  if (shape.kind === 'literals') {
    const { values } = shape
    return (
      values.length <= fewValues && values.every((value) => typeof value !== 'string' || value.length <= shortValue)
    )
  }
  return shape.kind === 'scalar' || shape.kind === 'json' || shape.kind === 'unknown' || shape.kind === 'never'
}

/** The definition whose text stands where the reference is, if it is not written as a name. */
export function inPlace(shape: Shape): Definition | undefined {
  if (shape.kind !== 'reference' || shape.definition === undefined || isNamed(shape.definition)) return undefined
  return shape.definition
}

/** What is to be told of a member: its description and the rules of its shape. Empty if there is nothing. */
export function commentOf(shape: Shape): string {
  for (let at: Shape | undefined = shape; at !== undefined;) {
    const text = joinComment(at.description, at.rules)
    if (text !== '') return text
    at = at.kind === 'intersection' && at.parts.length === 1 ? at.parts[0] : inPlace(at)?.shape
  }
  return ''
}

/** One line of a description and, in brackets, the rules beside it. White space collapses (code-mode.md §4.3). */
export function joinComment(description: string | undefined, rules: string | undefined): string {
  const text = description?.replace(/\s+/g, ' ').trim() ?? ''
  if (rules === undefined) return text
  return text === '' ? rules : `${text} (${rules})`
}

/** Text without halves of surrogate pairs, which no encoding can carry: each becomes its escape. */
export function escapeLoneSurrogates(text: string): string {
  return text.replace(/\p{Surrogate}/gu, (half) => `\\u${half.charCodeAt(0).toString(16)}`)
}
