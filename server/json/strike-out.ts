/** Rewrites JSON text so that no secret is left in any of its strings and keys; text without one comes back as it is. */
export type StrikeOut = (jsonText: string) => string

/** What stands in a secret's place. */
const mark = '[secret]'

/** JSON text within a string of JSON text, and once more: arguments as a model wrote them, in a result that quotes them. */
const maxNesting = 3

/**
 * Strikes secrets out of JSON text (api.md §9): as the text itself, and as JSON text inside a string writes it. Only whole secrets, as they are: not
 * what was encoded otherwise, or cut in two.
 */
export function strikeOut(secrets: Iterable<string>): StrikeOut {
  const forms = new Set<string>()
  for (const secret of secrets) {
    for (let form = secret, nesting = 0; nesting < maxNesting; nesting += 1) {
      form = JSON.stringify(form).slice(1, -1)
      forms.add(form)
    }
  }
  // The longest first, as one secret may begin with another.
  const longestFirst = [...forms].toSorted((a, b) => b.length - a.length)
  // A quote and an escape are read as such, or a secret could be found from the middle of an escape on, or outside of any string.
  const tokens = new RegExp(
    [...longestFirst.map(literally), String.raw`\\u[0-9a-fA-F]{4}`, String.raw`\\.`, '"'].join('|'),
    'g'
  )
  return (jsonText) => {
    if (!longestFirst.some((form) => jsonText.includes(form))) return jsonText
    let isInString = false
    return jsonText.replace(tokens, (token) => {
      if (token === '"') isInString = !isInString
      return isInString && forms.has(token) ? mark : token
    })
  }
}

const literally = (text: string): string => text.replaceAll(/[$()*+.?[\\\]^{|}]/g, String.raw`\$&`)
