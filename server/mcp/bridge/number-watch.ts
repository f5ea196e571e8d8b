import { isUnsafeNumber } from '../../json/parse-body.ts'

const quote = 0x22
const backslash = 0x5c
const colon = 0x3a
/** The members of a result that a call's value is made of. */
const kept = new Set(['content', 'structuredContent', 'toolResult'])
const longestKey = 32
/** A longer token of digits is beyond every double. */
const longestToken = 400

/**
 * Looks at the bytes of an answer to `tools/call` for an integer that would be rounded when it is parsed (F37, core.md §2.8). What a value
 * leaves out, as `_meta`, may hold any. A well-formed message ends as it began, so several may follow one another.
 */
export class NumberWatch {
  /** There was one. */
  hasUnsafe = false
  #depth = 0
  #isInString = false
  #isEscaped = false
  /** The last string right inside the result, and the member that it named. */
  #string = ''
  #key = ''
  #token = ''

  add(chunk: Uint8Array): void {
    for (const byte of chunk) {
      if (this.#isInString) this.#inString(byte)
      else if (isOfNumber(byte)) this.#inToken(byte)
      else this.#between(byte)
    }
  }

  #inString(byte: number): void {
    if (this.#isEscaped) this.#isEscaped = false
    else if (byte === backslash) this.#isEscaped = true
    else if (byte === quote) this.#isInString = false
    else if (this.#depth === 2 && this.#string.length < longestKey) this.#string += String.fromCharCode(byte)
  }

  #inToken(byte: number): void {
    if (this.#depth >= 2 && this.#token.length < longestToken) this.#token += String.fromCharCode(byte)
  }

  #between(byte: number): void {
    if (this.#token !== '') this.#endToken()
    if (byte === quote) {
      this.#isInString = true
      this.#string = ''
    } else if (byte === colon) {
      if (this.#depth === 2) this.#key = this.#string
    } else if (byte === 0x5b || byte === 0x7b) this.#depth += 1
    else if (byte === 0x5d || byte === 0x7d) this.#depth -= 1
  }

  #endToken(): void {
    this.hasUnsafe ||= kept.has(this.#key) && isUnsafeNumber(this.#token)
    this.#token = ''
  }
}

/** Digits, signs, point and exponent; the letters of `true` among them make a token that is no number. */
const isOfNumber = (byte: number): boolean =>
  (byte >= 0x30 && byte <= 0x39) || byte === 0x2d || byte === 0x2b || byte === 0x2e || byte === 0x65 || byte === 0x45
