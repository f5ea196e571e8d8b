/**
 * The accounting of everything that leaves a run towards the model, in bytes of UTF-8 JSON (code-mode.md §10): the logs as an array
 * of strings, and the value or the diagnostic. Whatever the outcome, what is handed on costs at most the limit.
 */

import { hasTooManyValues, maxValues } from './json-text.js'

/** @import { FailureKind } from './code-runtime.ts' */
/** @import { Outcome, SettledRun } from './keeper/messages.ts' */

/**
 * Log entries, and pieces that come past the console. Each costs memory and time beside its bytes: 22 million empty entries would stay
 * below the default limit.
 */
export const maxLogEntries = 1_000_000
/** What comes past the console may come a byte at a time: pieces are joined, or 64 MiB of them would take gigabytes. */
const joinEvery = 4_096

/**
 * Bytes of a string as UTF-8 JSON, without making it. Counting stops once `limit` is passed.
 * @param {string} text @param {number} [limit] @returns {number}
 */
export function jsonStringBytes(text, limit = Infinity) {
  let bytes = 2
  for (let at = 0; at < text.length && bytes <= limit; at += 1) {
    const code = text.charCodeAt(at)
    bytes += unitBytes(text, at, code)
    if (code >= 0xd800 && code < 0xdc00 && isPair(text, at)) at += 1
  }
  return bytes
}

/**
 * The longest prefix of a string that costs at most `limit` bytes, cut between code points.
 * @param {string} text @param {number} limit @returns {string}
 */
export function jsonStringPrefix(text, limit) {
  let bytes = 2
  let at = 0
  while (at < text.length) {
    const code = text.charCodeAt(at)
    bytes += unitBytes(text, at, code)
    if (bytes > limit) break
    at += code >= 0xd800 && code < 0xdc00 && isPair(text, at) ? 2 : 1
  }
  return text.slice(0, at)
}

/** Cost of the code point that starts at `at`. @param {string} text @param {number} at @param {number} code @returns {number} */
function unitBytes(text, at, code) {
  if (code < 0x80) {
    if (code === 0x22 || code === 0x5c) return 2
    if (code >= 0x20) return 1
    return code === 8 || code === 9 || code === 10 || code === 12 || code === 13 ? 2 : 6
  }
  if (code < 0x800) return 2
  if (code < 0xd800 || code > 0xdfff) return 3
  return code < 0xdc00 && isPair(text, at) ? 4 : 6
}

/** @param {string} text @param {number} at */
function isPair(text, at) {
  const next = text.charCodeAt(at + 1)
  return next >= 0xdc00 && next <= 0xdfff
}

/** What came on one stream past the console. */
class RawText {
  /** @type {string[]} */
  #joined = []
  /** @type {string[]} */
  #pieces = []

  get isEmpty() {
    return this.#joined.length === 0 && this.#pieces.length === 0
  }

  /** @param {string} text */
  add(text) {
    if (this.#pieces.push(text) < joinEvery) return
    this.#joined.push(this.#pieces.join(''))
    this.#pieces = []
  }

  whole() {
    return this.#joined.concat(this.#pieces).join('')
  }
}

export class OutputLedger {
  /** @type {string[]} */
  #logs = []
  /** Bytes that went past the console, per stream: one entry each, after the ordered ones (code-mode.md §6). */
  #raw = { stdout: new RawText(), stderr: new RawText() }
  #bytes = 2
  #hasEntry = false
  #pieces = 0
  #limit
  #isOver = false

  /** @param {number} limit bytes */
  constructor(limit) {
    this.#limit = limit
  }

  /** Whether the logs alone have crossed the limit. */
  get isOver() {
    return this.#isOver
  }

  /** @param {string} text */
  addLog(text) {
    if (this.#isOver) return
    this.#logs.push(text)
    this.#charge(jsonStringBytes(text, this.#limit), true)
  }

  /** @param {'stdout' | 'stderr'} stream @param {string} text */
  addRaw(stream, text) {
    if (this.#isOver || text === '') return
    const isFirst = this.#raw[stream].isEmpty
    this.#raw[stream].add(text)
    this.#charge(jsonStringBytes(text, this.#limit) - (isFirst ? 0 : 2), isFirst)
  }

  /**
   * What the run comes to. A text of a value that is not as short as JSON can be is charged at its own length.
   * @param {Outcome} outcome @returns {SettledRun}
   */
  settle(outcome) {
    const past = [this.#raw.stdout, this.#raw.stderr].filter(({ isEmpty }) => !isEmpty)
    const logs = this.#logs.concat(past.map((raw) => raw.whole()))
    const hasTooMany = outcome.type === 'value' && outcome.text !== undefined && hasTooManyValues(outcome.text)
    if (hasTooMany) return this.#overLimit(logs, `${maxValues} values`)
    const isOver = this.#isOver || (outcome.type === 'failure' && outcome.kind === 'output-limit')
    const room = isOver ? -1 : this.#limit - this.#bytes
    if (outcome.type === 'value' && room >= valueBytes(outcome.text, room)) return { logs, value: outcome.text }
    if (outcome.type === 'failure' && room >= jsonStringBytes(outcome.message, this.#limit)) {
      return { logs, error: { kind: outcome.kind, message: outcome.message } }
    }
    return this.#overLimit(
      logs,
      this.#pieces > maxLogEntries ? `${maxLogEntries} log entries` : `maxOutputBytes (${this.#limit} bytes)`
    )
  }

  /** @param {number} bytes @param {boolean} isEntry */
  #charge(bytes, isEntry) {
    this.#bytes += bytes + (isEntry && this.#hasEntry ? 1 : 0)
    this.#hasEntry ||= isEntry
    this.#pieces += 1
    this.#isOver = this.#bytes > this.#limit || this.#pieces > maxLogEntries
  }

  /** The diagnostic comes first, then as much of the logs as still fits. @param {string[]} logs @param {string} excess @returns {SettledRun} */
  #overLimit(logs, excess) {
    const message = jsonStringPrefix(`The program's output exceeds ${excess}.`, this.#limit - 2)
    const room = this.#limit - jsonStringBytes(message)
    /** @type {string[]} */
    const kept = []
    let bytes = 2
    for (const text of logs.slice(0, maxLogEntries)) {
      const comma = kept.length > 0 ? 1 : 0
      const cost = comma + jsonStringBytes(text, room)
      if (bytes + cost > room) {
        const prefix = jsonStringPrefix(text, room - bytes - comma)
        if (prefix !== '') kept.push(prefix)
        break
      }
      kept.push(text)
      bytes += cost
    }
    return { logs: kept, error: { kind: 'output-limit', message } }
  }
}

/**
 * The bytes of a value's JSON text: a number such as `1e20` is shorter than JSON writes it, so a text with an exponent is rewritten.
 * @param {string | undefined} text
 * @param {number} room beyond which the exact number does not matter
 */
function valueBytes(text, room) {
  if (text === undefined) return 0
  const bytes = Buffer.byteLength(text)
  if (bytes > room || !/\d[eE]/.test(text)) return bytes
  try {
    return Math.max(bytes, Buffer.byteLength(JSON.stringify(JSON.parse(text))))
  } catch {
    // Nested too deep for `JSON.stringify`: the world's own length has to do.
    return bytes
  }
}
