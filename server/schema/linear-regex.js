import { RE2JS } from 're2js'

/** What ajv needs of a compiled pattern. @typedef {{ test(text: string): boolean, toString(): string }} LinearRegex */

/**
 * The engine of `pattern` and `patternProperties` in schemas from outside: RE2's, which takes time linear in the text whatever the
 * pattern (`^(a|a)*$` took the native one 1 s at 24 characters). It throws on look-around, on references back, and on counts beyond
 * 1,000. Its `\s` is ASCII. `toString` must tell patterns apart: ajv keeps engines by that text, and with all of them alike every
 * value passed every pattern (reliability.md §0.8).
 * @param {string} pattern
 * @returns {LinearRegex}
 */
export function linearRegex(pattern) {
  const engine = RE2JS.compile(RE2JS.translateRegExp(pattern))
  return { test: (text) => engine.test(text), toString: () => `/${pattern}/` }
}
