import type { Tail } from './messages.ts'
import type { OutputPiece, OutputWindow } from './subprocess.ts'
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

/**
 * At most `maxBytes` of a stream from `offset` on: from the first character that begins there or later, and no character in part; one
 * whole character at least, where there is one.
 */
export function pieceOf(tail: Tail, offset: number, maxBytes: number, hasEnded: boolean): OutputPiece {
  const keptFrom = tail.total - tail.bytes.length
  const asked = Math.min(Math.max(offset, keptFrom), tail.total)
  const from = asked + partialStart(tail.bytes.subarray(asked - keptFrom))
  const rest = tail.bytes.subarray(from - keptFrom)
  let length = Math.min(maxBytes, rest.length)
  if (length < rest.length || !hasEnded) length -= partialEnd(rest.subarray(0, length))
  if (length === 0 && maxBytes < 4 && maxBytes < rest.length) return pieceOf(tail, from, maxBytes + 1, hasEnded)
  const text = Buffer.from(rest.buffer, rest.byteOffset, length).toString('utf8')
  return { text, from, nextOffset: from + length, lossy: offset < keptFrom }
}
