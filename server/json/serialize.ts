import type { JsonObject, JsonValue } from './lossless.ts'

/**
 * Compact JSON text of a value of any depth. `JSON.stringify` alone fails at about 4,000 levels (core.md §2.7), and a
 * `toJSON` that some library put on a prototype would speak for the value (core.md §2.3); in both cases `writeJson` does it.
 */
export function stringifyJson(value: JsonValue): string {
  if ('toJSON' in Array.prototype) return writeJson(value, Object.keys)
  try {
    return JSON.stringify(value)
  } catch (error) {
    if (error instanceof RangeError) return writeJson(value, Object.keys)
    throw error
  }
}

/** One container being written; `keys` is undefined for an array. */
interface Frame {
  readonly source: JsonValue[] | JsonObject
  readonly keys: readonly string[] | undefined
  readonly parent: Frame | undefined
  next: number
}

/** Writes compact JSON text without recursion, an object's members in the order of `keysOf`. */
export function writeJson(value: JsonValue, keysOf: (object: JsonObject) => readonly string[]): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  let frame: Frame | undefined = open(value, keysOf, undefined)
  let text = frame.keys === undefined ? '[' : '{'
  while (frame !== undefined) {
    const { source, keys, next }: Frame = frame
    if (next === (keys ?? (source as JsonValue[])).length) {
      text += keys === undefined ? ']' : '}'
      frame = frame.parent
      continue
    }
    frame.next += 1
    if (next > 0) text += ','
    const key = keys?.[next]
    if (key !== undefined) text += `${JSON.stringify(key)}:`
    const item: JsonValue = key === undefined ? (source as JsonValue[])[next]! : (source as JsonObject)[key]!
    if (typeof item !== 'object' || item === null) text += JSON.stringify(item)
    else {
      frame = open(item, keysOf, frame)
      text += frame.keys === undefined ? '[' : '{'
    }
  }
  return text
}

function open(
  source: JsonValue[] | JsonObject,
  keysOf: (object: JsonObject) => readonly string[],
  parent: Frame | undefined
): Frame {
  return { source, keys: Array.isArray(source) ? undefined : keysOf(source), parent, next: 0 }
}
