/** @import { JsonObject, JsonValue } from '../../json/lossless.ts' */

/** Why something of a document is left out, in words that follow its name. */
export class LeftOut extends Error {
  /** @override */
  name = 'LeftOut'
}

/** References to references. */
const longestChain = 16

/** Resolves references within one document. Nothing is ever fetched, and only own members are found. */
export class References {
  #root

  /** @param {JsonObject} root */
  constructor(root) {
    this.#root = root
  }

  /**
   * What a reference leads to, itself perhaps a reference. Throws `LeftOut`.
   * @param {string} ref @returns {JsonValue}
   */
  target(ref) {
    if (ref !== '#' && !ref.startsWith('#/')) {
      throw new LeftOut(`refers to ${quoted(ref)}, which is outside the document or no JSON pointer`)
    }
    /** @type {JsonValue} */
    let value = this.#root
    for (const token of ref.split('/').slice(1)) {
      /** @type {JsonValue | undefined} */
      const found = isContainer(value) ? member(value, stepOf(token)) : undefined
      if (found === undefined) throw new LeftOut(`refers to ${quoted(ref)}, which is not there`)
      value = found
    }
    return value
  }

  /**
   * The object that a member is, or refers to. Throws `LeftOut` for anything else.
   * @param {JsonValue | undefined} value @param {string} what @returns {JsonObject}
   */
  object(value, what) {
    let at = value
    for (let hops = 0; hops <= longestChain; hops += 1) {
      if (!isObject(at)) throw new LeftOut(`has ${what} that is no object`)
      const ref = member(at, '$ref')
      if (ref === undefined) return at
      if (typeof ref !== 'string') throw new LeftOut(`has ${what} with a "$ref" that is no text`)
      at = this.target(ref)
    }
    throw new LeftOut(`has ${what} whose references do not end`)
  }
}

/** @param {JsonValue | undefined} value @returns {value is JsonObject} */
export const isObject = (value) => typeof value === 'object' && value !== null && !Array.isArray(value)

/**
 * An own member, where it is there.
 * @param {JsonObject | JsonValue[]} of @param {string} key @returns {JsonValue | undefined}
 */
export const member = (of, key) => (Object.hasOwn(of, key) ? /** @type {JsonObject} */ (of)[key] : undefined)

/**
 * The own members of what should be a map; of anything else, none.
 * @param {JsonValue | undefined} value
 */
export const entriesOf = (value) => (isObject(value) ? Object.entries(value) : [])

/** @param {JsonValue} value @returns {value is JsonObject | JsonValue[]} */
const isContainer = (value) => typeof value === 'object' && value !== null

/** @param {string} token */
function stepOf(token) {
  const text = token.replaceAll('~1', '/').replaceAll('~0', '~')
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/**
 * A text from the document, short enough for a message.
 * @param {string} text
 */
export const quoted = (text) => JSON.stringify(text.length > 120 ? `${text.slice(0, 120)}…` : text)
