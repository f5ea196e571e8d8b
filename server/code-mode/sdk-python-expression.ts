/** What the block may import from `typing`, in the order of its import line (code-mode.md §4.4). */
export const typingSymbols = ['Any', 'Literal', 'NotRequired', 'Protocol', 'TypedDict'] as const
export type TypingSymbol = (typeof typingSymbols)[number]

/** A type expression, with what decides whether CPython can still parse what is built from it. */
export interface Expression {
  readonly text: string
  /** Levels of its syntax tree, at most. */
  readonly depth: number
  /** Levels of brackets. */
  readonly brackets: number
  /** The imports it needs, one bit a symbol of `typingSymbols`. */
  readonly symbols: number
}

// CPython 3.11 refuses 200 open brackets, and trees of more than about 1,000 levels on some versions; some of both are needed around a type.
const deepestTree = 800
const deepestBrackets = 185
const longestGroup = 100

export const bitOf = (symbol: TypingSymbol): number => 1 << typingSymbols.indexOf(symbol)

/** A name or a literal; `symbol` is the import that it needs. */
export function word(text: string, symbol?: TypingSymbol): Expression {
  return { text, depth: 2, brackets: text.endsWith(']') ? 1 : 0, symbols: symbol === undefined ? 0 : bitOf(symbol) }
}

export const any = word('Any', 'Any')

/** `list[T]` and the like: `open` is all before T. */
export function bracketed(open: string, item: Expression, symbol?: TypingSymbol): Expression {
  return {
    text: `${open}${item.text}]`,
    depth: item.depth + 2,
    brackets: item.brackets + 1,
    symbols: item.symbols | (symbol === undefined ? 0 : bitOf(symbol))
  }
}

/**
 * `A | B`. Python's parser makes a chain of thousands a tree as deep as the chain is long, and gives up; such a chain is written
 * in groups, and what is too deep even so is `Any`.
 */
export function union(branches: readonly Expression[]): Expression {
  let parts = branches
  let chained = chain(parts)
  while (chained.depth > deepestTree && parts.length > longestGroup) {
    const groups: Expression[] = []
    for (let start = 0; start < parts.length; start += longestGroup) {
      const group = chain(parts.slice(start, start + longestGroup))
      groups.push({ ...group, text: `(${group.text})`, brackets: group.brackets + 1 })
    }
    parts = groups
    chained = chain(parts)
  }
  return chained.depth > deepestTree || chained.brackets > deepestBrackets ? any : chained
}

function chain(parts: readonly Expression[]): Expression {
  if (parts.length === 1) return parts[0]!
  let text = ''
  let [depth, brackets, symbols] = [0, 0, 0]
  parts.forEach((part, index) => {
    text += index === 0 ? part.text : ` | ${part.text}`
    depth = Math.max(depth, part.depth)
    brackets = Math.max(brackets, part.brackets)
    symbols |= part.symbols
  })
  return { text, depth: depth + parts.length - 1, brackets, symbols }
}
