import type { JsonValue } from './lossless.ts'
import { endOfString, parseJson } from './parse-text.js'
import { formatPath, type PathStep } from './path.ts'

/** Integers of 16 digits and numbers with an exponent: without one of these no number of the text can be unsafe. */
const suspect = /\d{16}|\d[eE]/
const numberToken = /-?[\d.eE+-]*/y

/**
 * Path (`$.rows[3].id`) of the first integer of a JSON text that a double would not hold: the parsed value no longer tells,
 * and Node 20's reviver has no source text (core.md §2.8). Of a text that does not parse the answer
 * means nothing, and may be a `JsonTextError`. One linear pass.
 */
export function unsafeNumberPath(text: string): string | undefined {
  const [first] = unsafeNumberPaths(text, 0)
  return first === undefined ? undefined : formatPath('$', first)
}

/**
 * Paths of such integers, in the order of the text, one for each distinct path prefix of `groupDepth` steps: with 2 the first of each
 * call in `{"calls":[…]}`, with 0 at most one. The answer stays small however many there are.
 */
export function unsafeNumberPaths(text: string, groupDepth: number): PathStep[][] {
  const found: PathStep[][] = []
  if (!suspect.test(text)) return found
  // A number is an index, a string the raw JSON text of a member's name.
  const path: PathStep[] = []
  let lastString = '""'
  let groupDone = false
  const advance = (step: PathStep): void => {
    if (path.length <= groupDepth) groupDone = false
    path[path.length - 1] = step
  }
  for (let at = 0; at < text.length; at += 1) {
    const char = text[at]!
    switch (char) {
      case '"': {
        const end = endOfString(text, at)
        lastString = text.slice(at, end + 1)
        at = end
        break
      }
      case '[':
        path.push(0)
        break
      case '{':
        path.push('""')
        break
      case ']':
      case '}':
        path.pop()
        break
      case ':':
        advance(lastString)
        break
      case ',': {
        const step = path.at(-1)
        if (typeof step === 'number') advance(step + 1)
        break
      }
      default:
        if (char !== '-' && (char < '0' || char > '9')) break
        numberToken.lastIndex = at
        const token = numberToken.exec(text)![0]
        at += token.length - 1
        if (groupDone || !isUnsafeNumber(token)) break
        groupDone = true
        found.push(path.map((step) => (typeof step === 'number' ? step : (parseJson(step) as string))))
    }
  }
  return found
}

/**
 * A token of digits alone is unsafe beyond 2^53 − 1. One written with a point or an exponent is a double by intent, and is
 * unsafe only if it denotes an integer that reading and printing it changes (`9007199254740993.0`, not `1e23`).
 */
export function isUnsafeNumber(token: string): boolean {
  const value = Number(token)
  if (Math.abs(value) <= Number.MAX_SAFE_INTEGER) return false
  if (!/[.eE]/.test(token)) return true
  if (!Number.isFinite(value)) return false
  const [digits, exponent] = decimal(token)
  const [kept, keptExponent] = decimal(String(value))
  return exponent >= 0 && (digits !== kept || exponent !== keptExponent)
}

/** Significant digits of a number token and the power of ten of the last one. Loops, since `/0+$/` is quadratic. */
function decimal(token: string): [digits: string, exponent: number] {
  const [mantissa = '', power = '0'] = token.toLowerCase().split('e')
  const [whole = '', fraction = ''] = mantissa.replace('-', '').split('.')
  const digits = whole + fraction
  let start = 0
  while (digits[start] === '0') start += 1
  let end = digits.length
  while (digits[end - 1] === '0') end -= 1
  return [digits.slice(start, end), Number(power) - fraction.length + digits.length - end]
}

/**
 * Path of the first key in a parsed value that a careless merge would take for a prototype: an own `__proto__`, or an own
 * `constructor` whose value has an own `prototype`. Subtrees for which `isData` is true (a call's arguments) may hold such
 * keys and are skipped; it is given the live path, to look at and not to keep. Iterative.
 */
export function poisonKeyPath(
  value: JsonValue,
  isData: (path: readonly PathStep[]) => boolean = () => false
): string | undefined {
  const path: PathStep[] = []
  const open: { source: Record<PathStep, JsonValue>; keys: string[] | undefined; length: number; next: number }[] = []
  const enter = (item: JsonValue): void => {
    if (typeof item !== 'object' || item === null || isData(path)) return
    const keys = Array.isArray(item) ? undefined : Object.keys(item)
    open.push({ source: item as never, keys, length: keys?.length ?? (item as JsonValue[]).length, next: 0 })
  }
  enter(value)
  for (let frame = open.at(-1); frame !== undefined; frame = open.at(-1)) {
    path.length = open.length - 1
    if (frame.next === frame.length) {
      open.pop()
      continue
    }
    const key = frame.keys?.[frame.next] ?? frame.next
    frame.next += 1
    path.push(key)
    const item = frame.source[key]!
    if (key === '__proto__' || (key === 'constructor' && hasPrototype(item))) return formatPath('$', path)
    enter(item)
  }
  return undefined
}

function hasPrototype(value: JsonValue): boolean {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, 'prototype')
}
