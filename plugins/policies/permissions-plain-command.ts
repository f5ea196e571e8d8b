import { baseName, neverByWords } from './permissions-programs.ts'

/** Beyond this a command line is not read: no rule for words is made for it, and reading must stay short. */
export const longestCommand = 65_536

// Unquoted, only what means itself everywhere in a word. A tilde does after a letter or digit, as in HEAD~3. In quotes also what
// is not ASCII: outside of them some locales take such bytes for blanks. No `!`, which history expansion would take.
const part = /[\w@%+=:,./^-]|(?<=[A-Za-z0-9])~|'[^']*'|"[^"$`\\!]*"/y
const commandWord = /^[A-Za-z0-9_./][\w./+-]*$/
const strange = /[\p{Cc}\p{Cs}]/u

/**
 * The words of a text that is one simple command of plain words, which is to say that bash runs exactly this argv and nothing else
 * (reliability.md §1.5). Undefined for every other text. Linear.
 */
export function plainWords(text: string): string[] | undefined {
  if (text.length > longestCommand || strange.test(text)) return undefined
  const words: string[] = []
  let at = 0
  for (;;) {
    while (text[at] === ' ') at += 1
    if (at === text.length) break
    const start = at
    let word = ''
    while (at < text.length && text[at] !== ' ') {
      part.lastIndex = at
      const found = part.exec(text)?.[0]
      if (found === undefined) return undefined
      word += found.startsWith("'") || found.startsWith('"') ? found.slice(1, -1) : found
      at += found.length
    }
    // The name stands bare, so that what is read here is what bash looks up.
    if (words.length === 0 && !commandWord.test(text.slice(start, at))) return undefined
    words.push(word)
  }
  const [name] = words
  return name === undefined || neverByWords.has(baseName(name)) ? undefined : words
}
