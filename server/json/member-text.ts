import { endOfString } from './parse-text.js'
import type { PathStep } from './path.ts'

const space = /\s*/y
const scalar = /[^\s,\]}]*/y
const structural = /["[\]{}]/g

/**
 * The text of one value inside a JSON text that parses, exactly as it was written; undefined when the path leads nowhere. Of a key
 * that stands twice it is the last, as for `JSON.parse`. Linear and iterative.
 */
export function memberText(text: string, path: readonly PathStep[]): string | undefined {
  let start = skip(space, text, 0)
  for (const step of path) {
    let found: number | undefined
    for (const member of membersOf(text, start)) if (member.key === step) found = member.start
    if (found === undefined) return undefined
    start = found
  }
  return text.slice(start, valueEnd(text, start))
}

/** The texts of all items of an array that is a JSON text, in one pass: asked for one by one they would take one pass each. */
export function itemTexts(text: string): string[] {
  return Array.from(membersOf(text, skip(space, text, 0)), ({ start, end }) => text.slice(start, end))
}

/** Where the members of the container at `start` stand; a scalar has none. */
function* membersOf(text: string, container: number): Generator<{ key: PathStep; start: number; end: number }> {
  const isArray = text[container] === '['
  if (!isArray && text[container] !== '{') return
  let at = skip(space, text, container + 1)
  for (let index = 0; text[at] !== ']' && text[at] !== '}'; index += 1) {
    let key: PathStep = index
    if (!isArray) {
      const end = endOfString(text, at) + 1
      key = JSON.parse(text.slice(at, end)) as string
      // Over the colon.
      at = skip(space, text, skip(space, text, end) + 1)
    }
    const end = valueEnd(text, at)
    yield { key, start: at, end }
    at = skip(space, text, end)
    if (text[at] === ',') at = skip(space, text, at + 1)
  }
}

/** Index behind the value that begins at `start`. */
function valueEnd(text: string, start: number): number {
  const first = text[start]
  if (first === '"') return endOfString(text, start) + 1
  if (first !== '{' && first !== '[') return skip(scalar, text, start)
  let depth = 0
  let at = start
  do {
    structural.lastIndex = at
    const { 0: token, index } = structural.exec(text)!
    if (token === '"') at = endOfString(text, index)
    else {
      depth += token === '{' || token === '[' ? 1 : -1
      at = index
    }
    at += 1
  } while (depth > 0)
  return at
}

/** Index behind what the sticky pattern, which may match nothing, matches at `at`. */
function skip(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at
  pattern.test(text)
  return pattern.lastIndex
}
