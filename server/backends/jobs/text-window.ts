import type { JobWindow, JobWindowQuery } from './jobs.ts'

/** A window of a whole text: from the first character that begins at `after` or behind it, and no character in part. */
export function windowOfText(text: string, { after, maxBytes }: JobWindowQuery): JobWindow {
  const bytes = Buffer.from(text)
  const from = characterStart(bytes, Math.min(after, bytes.length))
  let next = Math.min(from + maxBytes, bytes.length)
  while (next > from && isContinuation(bytes[next])) next -= 1
  if (next === from) next = characterStart(bytes, Math.min(from + 1, bytes.length))
  return { text: bytes.toString('utf8', from, next), from, next, lossy: false }
}

function characterStart(bytes: Uint8Array, offset: number): number {
  let start = offset
  while (isContinuation(bytes[start])) start += 1
  return start
}

const isContinuation = (byte: number | undefined): boolean => byte !== undefined && (byte & 0xc0) === 0x80
