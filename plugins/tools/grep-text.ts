import type { JsonValue } from '../../server/json/lossless.ts'
import type { PresentedResult, ResultCard } from '../../server/tools/definition.ts'
import { fitting, listFacts, pathLine } from './search-text.ts'

/** Matches that are shown (backends.md §6.8). */
export const MAX_MATCHES = 250
/** UTF-8 bytes that are shown of one line. */
const MAX_LINE_BYTES = 2_000
const LINE_CUT = ' (line truncated)'

/** A matching line; `path` as it is shown. */
export type FoundLine = { path: string; lineNumber: number; line: string }

interface FileGroup {
  path: string
  matches: { lineNumber: number; line: string }[]
}

/** What a model reads. `note` says where all matches are, when these are not all. */
export function renderMatches(matches: readonly FoundLine[], note = ''): string {
  const total = matches.length
  if (total === 0) return 'No matches found'
  if (total <= MAX_MATCHES)
    return `Found ${total} ${total === 1 ? 'match' : 'matches'}\n\n${groupsText(pageOf(matches))}`
  return `Found ${MAX_MATCHES} of ${total} matches\n\n${groupsText(pageOf(matches))}\n\n(Shown are the first ${MAX_MATCHES} of ${total} matches${note}.)`
}

/** The same with every match and every line as long as it is. */
export const wholeMatches = (matches: readonly FoundLine[]): string =>
  `Found ${matches.length} matches\n\n${groupsText(grouped(matches))}\n`

/** What a card is made of, bounded by itself. */
export function matchesMeta(matches: readonly FoundLine[]): JsonValue {
  const page = fitting(pageOf(matches).flatMap(({ path, matches: lines }) => lines.map((line) => ({ path, ...line }))))
  const files = grouped(page).map(({ path, matches: lines }) => ({ path, matches: lines }))
  return { shape: 'matches', files, truncated: page.length < matches.length, total: matches.length }
}

/** A card out of what was stored, which may be old or damaged: then there is none (backends.md §1). */
export function matchesCard({ isError, meta }: PresentedResult): ResultCard | undefined {
  const facts = listFacts(meta)
  const files = facts?.['files']
  if (isError || facts?.['shape'] !== 'matches' || !Array.isArray(files)) return undefined
  const groups = files.flatMap((file) => groupOf(file) ?? [])
  const shown = groups.reduce((sum, { matches }) => sum + matches.length, 0)
  if (groups.length !== files.length || shown > facts.total) return undefined
  return { card: 'search', shape: 'matches', files: groups, truncated: facts.truncated, total: facts.total }
}

const pageOf = (matches: readonly FoundLine[]): FileGroup[] =>
  grouped(matches.slice(0, MAX_MATCHES).map(({ line, ...match }) => ({ ...match, line: preview(line) })))

/** By file; the matches of one file stand together already. */
function grouped(matches: readonly FoundLine[]): FileGroup[] {
  const groups: FileGroup[] = []
  for (const { path, lineNumber, line } of matches) {
    const last = groups.at(-1)
    if (last?.path === path) last.matches.push({ lineNumber, line })
    else groups.push({ path, matches: [{ lineNumber, line }] })
  }
  return groups
}

const groupsText = (groups: readonly FileGroup[]): string =>
  groups
    .map(({ path, matches }) =>
      [pathLine(path), ...matches.map(({ lineNumber, line }) => `Line ${lineNumber}: ${line}`)].join('\n')
    )
    .join('\n\n')

/** A line, cut at its cap and between two characters. */
function preview(line: string): string {
  if (line.length * 3 <= MAX_LINE_BYTES || Buffer.byteLength(line) <= MAX_LINE_BYTES) return line
  const bytes = new Uint8Array(MAX_LINE_BYTES)
  const { read } = new TextEncoder().encodeInto(line, bytes)
  return line.slice(0, read) + LINE_CUT
}

function groupOf(file: JsonValue): FileGroup | undefined {
  if (typeof file !== 'object' || file === null || Array.isArray(file)) return undefined
  const { path, matches } = file
  if (typeof path !== 'string' || !Array.isArray(matches)) return undefined
  const lines = matches.flatMap((match) => lineOf(match) ?? [])
  return lines.length === matches.length ? { path, matches: lines } : undefined
}

function lineOf(match: JsonValue): FileGroup['matches'][number] | undefined {
  if (typeof match !== 'object' || match === null || Array.isArray(match)) return undefined
  const { lineNumber, line } = match
  if (!Number.isSafeInteger(lineNumber) || (lineNumber as number) < 1 || typeof line !== 'string') return undefined
  return { lineNumber: lineNumber as number, line }
}
