import type { PathStep } from './path.ts'

const space = /[\s]*/y
const scalarEnd = /[^\s,\]}]*/y
const stringEnd = /"(?:[^"\\]|\\.)*"/sy
const nextToken = /["[\]{}]/g

/**
 * The text of one value inside a JSON text that parses, exactly as it was written; undefined when the path leads nowhere. Of a key
 * that stands twice it is the last, as for `JSON.parse`. Linear and iterative.
 */
export function memberText(text: string, path: readonly PathStep[]): string | undefined {
  let start = skip(space, text, 0)
  for (const step of path) {
    const found = memberStart(text, start, step)
    if (found === undefined) return undefined
    start = found
  }
  return text.slice(start, valueEnd(text, start))
}

function memberStart(text: string, container: number, step: PathStep): number | undefined {
  const isArray = text[container] === '['
  if (!isArray && text[container] !== '{') return undefined
  let found: number | undefined
  let at = skip(space, text, container + 1)
  for (let index = 0; at < text.length && text[at] !== ']' && text[at] !== '}'; index += 1) {
    let key: PathStep = index
    if (!isArray) {
      const end = skip(stringEnd, text, at)
      key = JSON.parse(text.slice(at, end)) as string
      // Over the colon.
      at = skip(space, text, skip(space, text, end) + 1)
    }
    if (key === step) found = at
    at = skip(space, text, valueEnd(text, at))
    if (text[at] === ',') at = skip(space, text, at + 1)
  }
  return found
}

/** Index behind the value that begins at `start`. */
function valueEnd(text: string, start: number): number {
  const first = text[start]
  if (first === '"') return skip(stringEnd, text, start)
  if (first !== '{' && first !== '[') return skip(scalarEnd, text, start)
  let depth = 0
  for (let at = start; ;) {
    nextToken.lastIndex = at
    const token = nextToken.exec(text)
    if (token === null) return text.length
    if (token[0] === '"') at = skip(stringEnd, text, token.index)
    else {
      depth += token[0] === '{' || token[0] === '[' ? 1 : -1
      at = token.index + 1
      if (depth === 0) return at
    }
  }
}

/** Index behind what the sticky pattern matches at `at`. */
function skip(pattern: RegExp, text: string, at: number): number {
  pattern.lastIndex = at
  return pattern.test(text) ? pattern.lastIndex : text.length
}
