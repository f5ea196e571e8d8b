import { TextDecoder } from 'node:util'
import { WebError } from './web.ts'

/** A Content-Type, as far as it matters here. */
export interface MediaType {
  kind: 'html' | 'text'
  /** The label as given; absent: the body may say. */
  charset?: string
}

const htmlTypes = new Set(['text/html', 'application/xhtml+xml'])
const isText = (type: string): boolean =>
  /^text\/./.test(type) || /^application\/(json|xml)$/.test(type) || /^[^/]+\/.*\+(json|xml)$/.test(type)

/** Reads a Content-Type header; throws WEB_UNSUPPORTED_CONTENT_TYPE for what is no text and for unknown charsets (backends.md §8.2). */
export function readMediaType(header: string): MediaType {
  const type = header.split(';', 1)[0]?.trim().toLowerCase() ?? ''
  const kind = htmlTypes.has(type) ? 'html' : isText(type) ? 'text' : undefined
  if (kind === undefined) throw unsupported(`it is ${JSON.stringify(type.slice(0, 100))}, not text`)
  const charset = /;\s*charset\s*=\s*(?:"([^"]*)"|([^\s;"]+))/i.exec(header.slice(0, 1_000))
  const label = (charset?.[1] ?? charset?.[2])?.trim()
  if (label === undefined || label === '') return { kind }
  if (decoderOf(label) === undefined) throw unsupported(`its charset ${JSON.stringify(label.slice(0, 100))} is unknown`)
  return { kind, charset: label }
}

export const unsupported = (reason: string): WebError =>
  new WebError('WEB_UNSUPPORTED_CONTENT_TYPE', `the answer cannot be read: ${reason}`)

/** How many bytes of a body may tell its charset, as browsers have it. */
export const SNIFFED_BYTES = 1_024

/** The decoder of a body that begins so: a byte order mark outranks the header, which outranks what HTML says of itself. */
export function decoderFor({ kind, charset }: MediaType, start: Uint8Array): TextDecoder {
  return new TextDecoder(markOf(start) ?? charset ?? (kind === 'html' ? declaredCharset(start) : undefined) ?? 'utf-8')
}

function markOf([first, second, third]: Uint8Array): string | undefined {
  if (first === 0xef && second === 0xbb && third === 0xbf) return 'utf-8'
  if (first === 0xfe && second === 0xff) return 'utf-16be'
  return first === 0xff && second === 0xfe ? 'utf-16le' : undefined
}

function declaredCharset(start: Uint8Array): string | undefined {
  const text = Buffer.from(start).toString('latin1', 0, SNIFFED_BYTES)
  const label = /<meta\s[^>]*?charset\s*=\s*["']?\s*([\w:.-]+)/i.exec(text)?.[1]
  const encoding = label === undefined ? undefined : decoderOf(label)?.encoding
  // A declaration that could be read as ASCII is not in UTF-16.
  return encoding?.startsWith('utf-16') ? 'utf-8' : encoding
}

function decoderOf(label: string): TextDecoder | undefined {
  try {
    return new TextDecoder(label)
  } catch {
    return undefined
  }
}
