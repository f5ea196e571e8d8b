import { pipeline, type Readable } from 'node:stream'
import type { TextDecoder } from 'node:util'
import { createBrotliDecompress, createGunzip } from 'node:zlib'
import { decoderFor, type MediaType, SNIFFED_BYTES, unsupported } from './media-type.ts'
import { WebError } from './web.ts'

/** The codings that `decoded` undoes, for Accept-Encoding. */
export const acceptedCodings = 'gzip, br'

const tooLarge = (maxBytes: number): WebError =>
  new WebError('WEB_FETCH_TOO_LARGE', `the answer is larger than ${maxBytes} bytes`)

/** Throws WEB_FETCH_TOO_LARGE for a declared length above the limit. */
export function assertLength(declared: string | undefined, maxBytes: number): void {
  if (declared !== undefined && Number(declared) > maxBytes) throw tooLarge(maxBytes)
}

/**
 * The bytes of a body without its content coding. A chain of codings, and those that were not asked for, are refused with
 * WEB_UNSUPPORTED_CONTENT_TYPE: each link multiplies what a small answer can unpack to (reliability.md §1.7).
 */
export function decoded(body: Readable, coding: string | undefined): { bytes: Readable; isCoded: boolean } {
  const name = coding?.trim().toLowerCase() ?? ''
  if (name === '' || name === 'identity') return { bytes: body, isCoded: false }
  const decoder =
    name === 'gzip' || name === 'x-gzip' ? createGunzip() : name === 'br' ? createBrotliDecompress() : undefined
  if (decoder === undefined) throw unsupported(`its encoding ${JSON.stringify(name.slice(0, 100))} is not supported`)
  // The error comes out of the decoder, which is what is read.
  return { bytes: pipeline(body, decoder, () => {}), isCoded: true }
}

export interface TextLimits {
  maxBytes: number
  maxCharacters: number
}

/**
 * Reads a text until its end or a limit, whichever comes first, and no further. What is beyond `maxBytes` is cut off, but for a coded
 * body, which is refused then with WEB_FETCH_TOO_LARGE: it may go on unpacking for ever (reliability.md S16). No character is cut in two.
 */
export async function readText(
  { bytes, isCoded }: { bytes: Readable; isCoded: boolean },
  type: MediaType,
  { maxBytes, maxCharacters }: TextLimits
): Promise<{ content: string; truncated: boolean }> {
  let start = Buffer.alloc(0)
  let decoder: TextDecoder | undefined
  let content = ''
  let size = 0
  for await (const piece of bytes) {
    const chunk = piece as Buffer
    const room = maxBytes - size
    const fitting = chunk.subarray(0, room)
    size += fitting.length
    if (decoder !== undefined) content += decoder.decode(fitting, { stream: true })
    else {
      start = Buffer.concat([start, fitting])
      if (start.length >= SNIFFED_BYTES) {
        decoder = decoderFor(type, start)
        content = decoder.decode(start, { stream: true })
      }
    }
    if (content.length > maxCharacters) return { content: cut(content, maxCharacters), truncated: true }
    if (chunk.length <= room) continue
    if (isCoded) throw tooLarge(maxBytes)
    // The bytes of a character whose rest is beyond the limit are dropped.
    content = decoder === undefined ? decoderFor(type, start).decode(start, { stream: true }) : content
    return { content: cut(content, maxCharacters), truncated: true }
  }
  content += decoder === undefined ? decoderFor(type, start).decode(start) : decoder.decode()
  return { content: cut(content, maxCharacters), truncated: content.length > maxCharacters }
}

/** The first UTF-16 units of a text, without half a character at the end. */
export function cut(text: string, maxCharacters: number): string {
  if (text.length <= maxCharacters) return text
  return text.slice(0, maxCharacters).replace(/[\uD800-\uDBFF]$/, '')
}
