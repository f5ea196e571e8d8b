import { isJsonObject, type JsonObject, type JsonValue } from '../../json/lossless.ts'
import { ownValue } from '../../json/plain.ts'

/** Why something of a document is left out, in words that follow its name. */
export class LeftOut extends Error {
  override readonly name = 'LeftOut'
}

/** References to references. */
const longestChain = 16

/** Resolves references within one document. Nothing is ever fetched, and only own members are found. */
export class References {
  readonly #root: JsonObject

  constructor(root: JsonObject) {
    this.#root = root
  }

  /** What a reference leads to, itself perhaps a reference. Throws `LeftOut`. */
  target(ref: string): JsonValue {
    if (ref !== '#' && !ref.startsWith('#/')) {
      throw new LeftOut(`refers to ${quoted(ref)}, which is outside the document or no JSON pointer`)
    }
    let value: JsonValue = this.#root
    for (const token of ref.split('/').slice(1)) {
      const found: unknown = isContainer(value) ? ownValue(value, stepOf(token)) : undefined
      if (found === undefined) throw new LeftOut(`refers to ${quoted(ref)}, which is not there`)
      value = found as JsonValue
    }
    return value
  }

  /** The object that a member is, or refers to. Throws `LeftOut` for anything else. */
  object(value: JsonValue | undefined, what: string): JsonObject {
    let at = value
    for (let hops = 0; hops <= longestChain; hops += 1) {
      if (!isJsonObject(at)) throw new LeftOut(`has ${what} that is no object`)
      const ref = ownValue(at, '$ref')
      if (ref === undefined) return at
      if (typeof ref !== 'string') throw new LeftOut(`has ${what} with a "$ref" that is no text`)
      at = this.target(ref)
    }
    throw new LeftOut(`has ${what} whose references do not end`)
  }
}

/** An own member of an object, where it is there. */
export const member = (object: JsonObject, key: string): JsonValue | undefined =>
  ownValue(object, key) as JsonValue | undefined

/** The own members of what should be a map; of anything else, none. */
export const entriesOf = (value: JsonValue | undefined): [string, JsonValue][] =>
  isJsonObject(value) ? Object.entries(value) : []

const isContainer = (value: JsonValue): value is JsonObject | JsonValue[] => typeof value === 'object' && value !== null

function stepOf(token: string): string {
  const text = token.replaceAll('~1', '/').replaceAll('~0', '~')
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** A text from the document, short enough for a message. */
export const quoted = (text: string): string => JSON.stringify(text.length > 120 ? `${text.slice(0, 120)}…` : text)
