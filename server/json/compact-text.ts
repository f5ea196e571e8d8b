import { endOfString } from './parse-text.js'

const scalar = /[^\s,\]}]*/y

/** An array or object being read: of an array the items so far, of an object the members by the text of their keys. */
interface Frame {
  readonly members: Map<string, string> | undefined
  items: string
  key: string
}

/**
 * The compact text of a JSON text that parses, and whose numbers a double holds: what `JSON.stringify(JSON.parse(text))` gives, but
 * with the members of objects in the order in which they were written, where the engine puts keys like `"1"` first. A key that stands
 * twice keeps its first place and its last value, as there. Linear and iterative.
 */
export function compactText(text: string): string {
  const open: Frame[] = []
  // The last value that is complete; none at the beginning of a container.
  let value = ''
  for (let at = 0; at < text.length; at += 1) {
    const char = text[at]!
    switch (char) {
      case ' ':
      case '\t':
      case '\n':
      case '\r':
        break
      case '[':
      case '{':
        open.push({ members: char === '{' ? new Map() : undefined, items: '', key: '' })
        value = ''
        break
      case ':':
        open.at(-1)!.key = value
        break
      case ',':
        add(open.at(-1)!, value)
        break
      case ']':
      case '}': {
        const frame = open.pop()!
        if (value !== '') add(frame, value)
        value = frame.members === undefined ? `[${frame.items}]` : objectText(frame.members)
        break
      }
      default: {
        const end = char === '"' ? endOfString(text, at) + 1 : scalarEnd(text, at)
        value = scalarText(text.slice(at, end))
        at = end - 1
      }
    }
  }
  return value
}

function add(frame: Frame, value: string): void {
  if (frame.members !== undefined) frame.members.set(frame.key, value)
  else frame.items += frame.items === '' ? value : `,${value}`
}

// By concatenation: a join would copy the text of a member once for each level that it is nested in.
function objectText(members: ReadonlyMap<string, string>): string {
  let text = '{'
  for (const [key, value] of members) text += text === '{' ? `${key}:${value}` : `,${key}:${value}`
  return `${text}}`
}

function scalarEnd(text: string, at: number): number {
  scalar.lastIndex = at
  scalar.test(text)
  return scalar.lastIndex
}

function scalarText(token: string): string {
  if (token.startsWith('"')) return token.includes('\\') ? JSON.stringify(JSON.parse(token)) : token
  // A name is as short as can be; a number may have been written in another way.
  return token >= 'a' ? token : String(Number(token))
}
