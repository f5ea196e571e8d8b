import type { DirectoryEntry, Files, ResolvedPath } from '../../server/backends/files/files.ts'

/** Characters of an answer (backends.md §6.9). */
const MAX_CHARS = 16_000
const clipNotice = `\n… (cut at ${MAX_CHARS} characters; ask for a view_range or a directory further down)`

/** An answer within the cap, with a notice if it was cut. */
export function clip(answer: string): string {
  if (answer.length <= MAX_CHARS) return answer
  const end = MAX_CHARS - clipNotice.length
  // Not between the halves of a surrogate pair.
  const last = answer.charCodeAt(end - 1)
  return answer.slice(0, last >= 0xd800 && last < 0xdc00 ? end - 1 : end) + clipNotice
}

/** Numbers the lines of a text that comes in pieces, and keeps so much of the wanted ones as an answer can hold. */
export class NumberedLines {
  #line = 1
  #isAtStart = true
  #kept = ''
  readonly #first: number
  readonly #last: number

  /** Lines `first` to `last`, from 1. */
  constructor(first: number, last: number) {
    this.#first = first
    this.#last = last
  }

  /** One more than there are newlines: as many as `insert` can count. */
  get totalLines(): number {
    return this.#line
  }

  get text(): string {
    return this.#isAtStart ? this.#kept + this.#number() : this.#kept
  }

  write(piece: string): void {
    let from = 0
    for (let end = piece.indexOf('\n'); end !== -1; end = piece.indexOf('\n', from)) {
      this.#keep(piece, from, end)
      if (this.#isWanted() && this.#line < this.#last) this.#kept += '\n'
      this.#line++
      this.#isAtStart = true
      from = end + 1
    }
    if (from < piece.length) {
      this.#keep(piece, from, piece.length)
      this.#isAtStart = false
    }
  }

  #keep(piece: string, from: number, to: number): void {
    if (!this.#isWanted()) return
    if (this.#isAtStart) this.#kept += this.#number()
    this.#kept += piece.slice(from, Math.min(to, from + MAX_CHARS))
  }

  /** Right-aligned to six places. */
  #number(): string {
    return this.#isWanted() ? `${String(this.#line).padStart(6)}  ` : ''
  }

  #isWanted(): boolean {
    return this.#line >= this.#first && this.#line <= this.#last && this.#kept.length <= MAX_CHARS
  }
}

const isShown = ({ name }: DirectoryEntry): boolean =>
  !name.startsWith('.') && name !== 'node_modules' && name !== '__pycache__'
const letters = { file: 'f', directory: 'd', other: '?' } as const

/** A directory and the directories in it: `d`, `f` or `?`, a tab, and the path, in the order of paths. */
export async function listTwoLevels(files: Files, target: ResolvedPath, signal: AbortSignal): Promise<string> {
  const rows: { path: string; kind: DirectoryEntry['kind'] }[] = []
  for (const entry of (await files.listDir(target, signal)).filter(isShown)) {
    const at = (path: string, name: string): string => `${path === '/' ? '' : path}/${name}`
    const path = at(target.displayPath, entry.name)
    rows.push({ path, kind: entry.kind })
    if (entry.kind !== 'directory') continue
    const inside = await files
      .listDir({ ...target, targetKey: at(target.targetKey, entry.name), displayPath: path }, signal)
      // One that may not be looked into, or is gone by now, is listed itself.
      .catch(() => [])
    signal.throwIfAborted()
    rows.push(...inside.filter(isShown).map(({ name, kind }) => ({ path: at(path, name), kind })))
  }
  return rows
    .sort((one, other) => (one.path < other.path ? -1 : 1))
    .map(({ path, kind }) => `${letters[kind]}\t${path}`)
    .join('\n')
}
