import { FileError, type TextEdit } from './files.ts'

/** Characters that tell which line ending a file has (backends.md §6.1). */
const PROBE_CHARS = 4096
/** Replacements of one edit, and characters of what it makes: a few bytes of arguments could ask for terabytes. */
const MAX_REPLACEMENTS = 1_000_000
const MAX_CHARS = 16 * 1024 * 1024
/** Line numbers that a refusal lists. */
const MAX_LISTED = 20

/**
 * Line endings as they are compared and shown: LF. A CR that stands alone is a character like any other. Split and joined, since
 * replaceAll takes six times as long: 5 s of the main loop for 8 million line endings.
 */
export const foldLineEndings = (text: string): string => text.split('\r\n').join('\n')

/**
 * The text after an edit. Throws FS_EDIT_NOT_FOUND, FS_AMBIGUOUS_EDIT and FS_TOO_LARGE, which name `path`. Every character outside the replaced
 * ranges stays, in a file of mixed line endings too.
 */
export function applyEdit(text: string, edit: TextEdit, path: string): string {
  if ('insert' in edit) {
    const at = startOfLine(text, edit.afterLine)
    if (at === undefined) throw new FileError('FS_EDIT_NOT_FOUND', `${path}: has no line ${edit.afterLine}`)
    return text.slice(0, at) + edit.insert + text.slice(at)
  }
  const { exact = false, all = false } = edit
  const searched = exact ? text : foldLineEndings(text)
  const needle = exact ? edit.replace : foldLineEndings(edit.replace)
  const replacement = exact ? edit.with : foldLineEndings(edit.with)
  const found = occurrences(searched, needle)
  if (found.length === 0) {
    throw new FileError('FS_EDIT_NOT_FOUND', `${path}: does not hold the text to replace; nothing is changed`)
  }
  if (found.length > 1 && !all) {
    const lines = linesOf(searched, found.slice(0, MAX_LISTED)).join(', ')
    const more = found.length > MAX_LISTED ? ', …' : ''
    const count = found.length > MAX_REPLACEMENTS ? `more than ${MAX_REPLACEMENTS}` : found.length
    throw new FileError(
      'FS_AMBIGUOUS_EDIT',
      `${path}: holds the text to replace ${count} times, on lines ${lines}${more}; nothing is changed`
    )
  }
  const length = text.length + found.length * (replacement.length - needle.length)
  if (found.length > MAX_REPLACEMENTS || length > MAX_CHARS) {
    throw new FileError('FS_TOO_LARGE', `${path}: too much would be replaced at once; nothing is changed`)
  }
  return replaceAt(text, found, { needle, replacement, isFolded: searched.length !== text.length })
}

/** Where the needle is, from left to right, without overlaps; no more than one beyond the limit. */
function occurrences(text: string, needle: string): number[] {
  const found: number[] = []
  if (needle === '') return found
  let at = text.indexOf(needle)
  while (at !== -1 && found.length <= MAX_REPLACEMENTS) {
    found.push(at)
    at = text.indexOf(needle, at + needle.length)
  }
  return found
}

interface Replacing {
  needle: string
  replacement: string
  /** Offsets are in the folded text, which is shorter than the text. */
  isFolded: boolean
}

function replaceAt(text: string, found: readonly number[], { needle, replacement, isFolded }: Replacing): string {
  const toText = isFolded ? unfoldedOffsets(text) : (offset: number) => offset
  // What both sides begin and end with is not touched, so that it keeps its own line endings.
  const [head, tail] = isFolded ? agreement(needle, replacement) : [0, 0]
  const inserted = replacement.slice(head, replacement.length - tail)
  const pieces: string[] = []
  let end = 0
  for (const at of found) {
    const [from, start, stop, to] = [at, at + head, at + needle.length - tail, at + needle.length].map(toText) as [
      number,
      number,
      number,
      number
    ]
    const isCrlf = isFolded && (hasMoreCrlf(text.slice(from, to)) ?? hasMoreCrlf(text.slice(0, PROBE_CHARS)) ?? false)
    pieces.push(text.slice(end, start), isCrlf ? inserted.replaceAll('\n', '\r\n') : inserted)
    end = stop
  }
  pieces.push(text.slice(end))
  return pieces.join('')
}

/** Offsets of the text for those of its folded form, which must be asked for in ascending order. */
function unfoldedOffsets(text: string): (offset: number) => number {
  let folds = 0
  let next = text.indexOf('\r\n')
  return (offset) => {
    // The n-th CRLF stands n characters further right than its LF in the folded text.
    while (next !== -1 && next - folds < offset) {
      folds++
      next = text.indexOf('\r\n', next + 2)
    }
    return offset + folds
  }
}

/** How many characters two texts have in common at their beginning, and, of the rest, at their end. */
function agreement(one: string, other: string): [head: number, tail: number] {
  const most = Math.min(one.length, other.length)
  let head = 0
  while (head < most && one[head] === other[head]) head++
  let tail = 0
  while (tail < most - head && one[one.length - 1 - tail] === other[other.length - 1 - tail]) tail++
  return [head, tail]
}

/** Whether CRLF is the more frequent line ending; undefined when neither is. */
function hasMoreCrlf(text: string): boolean | undefined {
  const crlf = text.split('\r\n').length - 1
  const lf = text.split('\n').length - 1 - crlf
  return crlf === lf ? undefined : crlf > lf
}

/** The numbers of the lines that ascending offsets lie on. */
function linesOf(text: string, offsets: readonly number[]): number[] {
  let line = 1
  let newline = text.indexOf('\n')
  return offsets.map((offset) => {
    while (newline !== -1 && newline < offset) {
      line++
      newline = text.indexOf('\n', newline + 1)
    }
    return line
  })
}

/** Where the text behind so many newlines begins; behind the last line, the end of the text. */
function startOfLine(text: string, lines: number): number | undefined {
  let at = 0
  for (let line = 0; line < lines; line++) {
    const newline = text.indexOf('\n', at)
    if (newline === -1) return line === lines - 1 ? text.length : undefined
    at = newline + 1
  }
  return at
}
