/** What is asked of JSON texts of a world, which is hostile: none of it may cost more than one pass over the text (code-mode.md §8). */

/**
 * Values in one argument or completion. Each costs a hundred bytes and a microsecond or more in the server's main thread, several times
 * over: 40 MB of `{},{},…` held it up for half a minute.
 */
export const maxValues = 250_000

/**
 * What is wrong with a text that a world says is lossless JSON, undefined if nothing; the world checked it, but may lie.
 * @param {string} text @returns {string | undefined}
 */
export function faultOf(text) {
  /** @type {unknown} */
  let value
  try {
    value = JSON.parse(text)
  } catch {
    return 'it is no JSON'
  }
  return mayHoldLostNumber(text) && hasLostNumber(value) ? 'a number of it is not JSON' : undefined
}

/**
 * Whether a text holds more than `limit` values: each container and each comma outside of strings counts. It need not be JSON.
 * @param {string} text @param {number} [limit] @returns {boolean}
 */
export function hasTooManyValues(text, limit = maxValues) {
  // So many do not fit.
  if (text.length <= limit) return false
  let count = 0
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at)
    if (code === quote) at = endOfString(text, at)
    else if (code === comma || code === openArray || code === openObject) count += 1
    if (count > limit) return true
  }
  return false
}

const [quote, backslash, comma, openArray, openObject] = [0x22, 0x5c, 0x2c, 0x5b, 0x7b]

/** @param {string} text @param {number} start of its opening quote @returns {number} the place of its closing one, or the text's end */
function endOfString(text, start) {
  for (let end = text.indexOf('"', start + 1); end !== -1; end = text.indexOf('"', end + 1)) {
    let escapes = 0
    while (text.charCodeAt(end - 1 - escapes) === backslash) escapes += 1
    if (escapes % 2 === 0) return end
  }
  return text.length
}

/** Only such a text can hold a number that is lost: -0, or one beyond every double. @param {string} text */
const mayHoldLostNumber = (text) => text.includes('-0') || /\d[eE]/.test(text) || hasLongNumber(text)

/** Digits of a number that has no exponent, and yet may be beyond every double. */
const longNumber = 300

/**
 * Whether a text has so many digits in a row. Asked of a pattern, `\d{300}`, a text of many runs of 299 took half a minute.
 * @param {string} text
 */
function hasLongNumber(text) {
  // One of the digits of such a run is looked at in any case.
  for (let at = longNumber - 1; at < text.length; at += longNumber) {
    if (!isDigit(text, at)) continue
    let start = at
    while (isDigit(text, start - 1)) start -= 1
    while (isDigit(text, at + 1)) at += 1
    if (at - start + 1 >= longNumber) return true
  }
  return false
}

/** @param {string} text @param {number} at */
function isDigit(text, at) {
  const code = text.charCodeAt(at)
  return code >= 0x30 && code <= 0x39
}

/** @param {unknown} root */
function hasLostNumber(root) {
  const open = [root]
  while (open.length > 0) {
    const value = open.pop()
    if (typeof value === 'number' && (!Number.isFinite(value) || Object.is(value, -0))) return true
    if (typeof value === 'object' && value !== null) for (const item of Object.values(value)) open.push(item)
  }
  return false
}
