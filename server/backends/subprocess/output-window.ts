import type { Tail } from './messages.ts'
import type { OutputWindow } from './subprocess.ts'
import { partialEnd, partialStart } from './utf8-cut.js'

/**
 * The text of a stream from `offset` on, out of what is kept of it. A character whose rest is still to come is left for the next
 * read, one whose beginning slid away is dropped (backends.md §1.2).
 */
export function windowOf(tail: Tail, offset: number, hasEnded: boolean): OutputWindow {
  const keptFrom = tail.total - tail.bytes.length
  const lossy = offset < keptFrom
  const from = Math.min(Math.max(offset, keptFrom), tail.total)
  let bytes = tail.bytes.subarray(from - keptFrom)
  if (lossy) bytes = bytes.subarray(partialStart(bytes))
  const heldBack = hasEnded ? 0 : partialEnd(bytes)
  const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length - heldBack).toString('utf8')
  const { spillPath } = tail
  return { text, nextOffset: tail.total - heldBack, lossy, ...(spillPath === undefined ? {} : { spillPath }) }
}
