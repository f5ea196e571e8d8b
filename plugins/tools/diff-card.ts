import type { JsonValue } from '../../server/json/lossless.ts'
import type { FileDiff, ResultCard } from '../../server/tools/definition.ts'
import { diffLines, type LineChange } from './diff-lines.ts'

/** Lines shown on each side of a change. */
const CONTEXT_LINES = 3
/** Characters of both texts around the changes, beyond which they are not compared: that happens on the main loop. */
const MAX_COMPARED_CHARS = 4 * 1024 * 1024
/** JSON bytes of all hunks: they are stored with the result, and read whenever somebody looks at it. */
const MAX_META_BYTES = 65_536

/**
 * The stored form of a change (backends.md §6.5): a hunk for each group of changes that stand close together, as many from the
 * beginning as fit. `total` is there only when some did not.
 */
export function diffMeta(path: string, before: string | null, after: string): JsonValue {
  if (before === null || before === after) return { diffs: [] }
  const [changedBefore, changedAfter] = surroundings(before, after)
  if (changedBefore.length + changedAfter.length > MAX_COMPARED_CHARS) return { diffs: [], total: 1 }
  const old = linesOf(changedBefore)
  const fresh = linesOf(changedAfter)
  const groups = grouped(diffLines(old, fresh))
  const diffs: { path: string; oldText: string | null; newText: string }[] = []
  let room = MAX_META_BYTES
  for (const group of groups) {
    const diff = hunk(path, { old, fresh, group })
    room -= Buffer.byteLength(JSON.stringify(diff))
    if (room < 0) return { diffs, total: groups.length }
    diffs.push(diff)
  }
  return { diffs }
}

/** Both texts from some lines before their first difference to some lines behind their last: large files are much alike. */
function surroundings(before: string, after: string): [string, string] {
  const most = Math.min(before.length, after.length)
  let head = 0
  while (head < most && before[head] === after[head]) head++
  let tail = 0
  while (tail < most - head && before[before.length - 1 - tail] === after[after.length - 1 - tail]) tail++
  // The line of the difference itself, and the context.
  const lineStart = (at: number): number => (at <= 0 ? 0 : before.lastIndexOf('\n', at - 1) + 1)
  head = lineStart(head)
  for (let line = 0; line < CONTEXT_LINES; line++) head = lineStart(head - 1)
  let end = before.length - tail
  for (let line = 0; line <= CONTEXT_LINES; line++) {
    const newline = before.indexOf('\n', end)
    end = newline === -1 ? before.length : newline + 1
  }
  return [before.slice(head, end), after.slice(head, after.length - (before.length - end))]
}

/** The card of a stored change; undefined for damaged or empty ones. `verb` begins the title of an incomplete one. */
export function diffCard(meta: JsonValue | undefined, verb: string): (ResultCard & { card: 'diff' }) | undefined {
  if (typeof meta !== 'object' || meta === null || Array.isArray(meta) || !Array.isArray(meta['diffs']))
    return undefined
  const { diffs: stored, total } = meta
  const diffs = stored.flatMap((diff) => fileDiff(diff) ?? [])
  const [first] = diffs
  if (first === undefined || diffs.length !== stored.length) return undefined
  if (typeof total !== 'number') return { card: 'diff', diffs }
  return { card: 'diff', title: `${verb} ${first.path} (${diffs.length} of ${total} changes)`, diffs }
}

function fileDiff(value: JsonValue): FileDiff | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined
  const { path, oldText, newText } = value
  if (typeof path !== 'string' || typeof newText !== 'string') return undefined
  return typeof oldText === 'string' || oldText === null ? { path, oldText, newText } : undefined
}

/** Lines with their newlines, so that a missing last one is a difference. */
const linesOf = (text: string): string[] => text.match(/[^\n]*\n|[^\n]+$/g) ?? []

/** Changes whose contexts touch are one hunk. */
function grouped(changes: readonly LineChange[]): LineChange[] {
  const groups: LineChange[] = []
  for (const change of changes) {
    const last = groups.at(-1)
    if (last !== undefined && change.oldStart - last.oldEnd <= 2 * CONTEXT_LINES) {
      last.oldEnd = change.oldEnd
      last.newEnd = change.newEnd
    } else {
      groups.push({ ...change })
    }
  }
  return groups
}

interface Hunk {
  old: readonly string[]
  fresh: readonly string[]
  group: LineChange
}

function hunk(path: string, { old, fresh, group }: Hunk): FileDiff {
  const context = old.slice(Math.max(0, group.oldStart - CONTEXT_LINES), group.oldStart)
  const trailing = old.slice(group.oldEnd, group.oldEnd + CONTEXT_LINES)
  const around = (lines: readonly string[]): string => [...context, ...lines, ...trailing].join('').replace(/\n$/, '')
  const removed = old.slice(group.oldStart, group.oldEnd)
  const isInsertion = context.length + removed.length + trailing.length === 0
  return {
    path,
    oldText: isInsertion ? null : around(removed),
    newText: around(fresh.slice(group.newStart, group.newEnd))
  }
}
