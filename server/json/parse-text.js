/** @import { JsonValue } from './lossless.ts' */

const quote = 0x22
const backslash = 0x5c
const openBracket = 0x5b
const closeBracket = 0x5d
const openBrace = 0x7b
const closeBrace = 0x7d

/** A text is not acceptable as JSON: it does not parse, or it nests deeper than is allowed. */
export class JsonTextError extends Error {
  /** @override */
  name = 'JsonTextError'
  reason

  /** @param {'syntax' | 'depth'} reason @param {string} message */
  constructor(reason, message) {
    super(message)
    this.reason = reason
  }
}

/**
 * Parses JSON text. Containers nested deeper than `maxDepth` (default: no limit) are found before anything is built, since
 * `JSON.stringify` and `structuredClone` fail on what `JSON.parse` accepts (core.md §2.7). `__proto__` stays an own key.
 * Throws `JsonTextError`.
 * @param {string} text @param {{ maxDepth?: number }} options
 * @returns {JsonValue}
 */
export function parseJson(text, { maxDepth = Infinity } = {}) {
  if (text.length > maxDepth && nestsDeeper(text, maxDepth)) {
    throw new JsonTextError('depth', `The JSON text nests deeper than ${maxDepth} levels.`)
  }
  try {
    return JSON.parse(text)
  } catch (error) {
    // The engine's message quotes the text, which may be a secret: only the place is repeated, and no cause is kept.
    const place = / at position \d+/.exec(String(error))?.[0] ?? ''
    throw new JsonTextError('syntax', `The text is not valid JSON${place}.`)
  }
}

/** @param {string} text @param {number} maxDepth */
function nestsDeeper(text, maxDepth) {
  let depth = 0
  for (let at = 0; at < text.length; at += 1) {
    switch (text.charCodeAt(at)) {
      case quote:
        at = endOfString(text, at)
        break
      case openBracket:
      case openBrace:
        depth += 1
        if (depth > maxDepth) return true
        break
      case closeBracket:
      case closeBrace:
        depth -= 1
        break
      default:
    }
  }
  return false
}

/**
 * Index of the quote that ends the string beginning at `start` of a JSON text, or the text's length.
 * @param {string} text @param {number} start
 */
export function endOfString(text, start) {
  for (let at = start + 1; at < text.length; at += 1) {
    const code = text.charCodeAt(at)
    if (code === quote) return at
    if (code === backslash) at += 1
  }
  return text.length
}
