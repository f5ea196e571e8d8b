import type {
  SendResult,
  TerminalInfo,
  TerminalPage,
  TerminalStatus
} from '../../server/backends/terminals/terminals.ts'
import { partialEnd, partialStart } from '../../server/backends/subprocess/utf8-cut.js'
import { visibleText as withoutUnseen } from '../../server/tools/visible-text.ts'

const marker = '[output truncated]'

/** What a model reads of a new terminal (backends.md §5.3). Its id comes first, where no cut takes it. */
export function renderOpened(
  { sessionId, name, type, motd }: TerminalInfo & { motd: string },
  maxBytes: number
): string {
  const head = `${sessionId}${name === undefined ? '' : ` (${name})`} [${type}] is open`
  return keepHead(`${head}\n${motd === '' ? '(no startup output)' : motd}`, maxBytes)
}

export function renderSent({ viewport, truncated, waitReason, sessionStatus }: SendResult, maxBytes: number): string {
  const markers = `[wait: ${waitReason}]\n[session: ${statusText(sessionStatus)}]`
  return keepTail(viewport === '' ? '(no new output)' : viewport, markers, { maxBytes, isCut: truncated })
}

export function renderPage(
  { text, lineBegin, lineEnd, totalLines, truncated }: TerminalPage,
  maxBytes: number
): string {
  const markers = `[lines: ${lineBegin}-${lineEnd} of ${totalLines}]`
  return keepTail(text === '' ? '(no retained output)' : text, markers, { maxBytes, isCut: truncated })
}

export function renderTerminals(terminals: readonly TerminalInfo[]): string {
  if (terminals.length === 0) return '(no terminal sessions)'
  return terminals
    .map(({ sessionId, name, type, pid, status }) =>
      [sessionId, name && `(${name})`, `[${type}]`, statusText(status), pid && `pid=${pid}`].filter(Boolean).join(' ')
    )
    .join('\n')
}

export const statusText = (status: TerminalStatus): string =>
  status.kind === 'running' ? 'running' : `exited code=${status.exitCode ?? 'none'} signal=${status.signal ?? 'none'}`

/** A text that was typed, in one line: what cannot be seen, or changes what is, stands as an escape (reliability.md §1.10). */
export const visibleText = (typed: string): string =>
  withoutUnseen(typed.trim().replaceAll('\n', '\\n')).replaceAll(
    /[\p{C}\p{Zl}\p{Zp}]/gu,
    (character) => `\\u{${character.codePointAt(0)?.toString(16) ?? ''}}`
  )

/** The beginning of a text within `maxBytes`, with a marker where some is missing. */
export function keepHead(text: string, maxBytes: number): string {
  const bytes = Buffer.from(text)
  if (bytes.length <= maxBytes) return text
  const kept = bytes.subarray(0, maxBytes - marker.length - 1)
  return `${kept.toString('utf8', 0, kept.length - partialEnd(kept))}\n${marker}`
}

/** The end of `body`, and the markers after it; these alone, or the end of these, where there is no more room. */
function keepTail(body: string, markers: string, { maxBytes, isCut }: { maxBytes: number; isCut: boolean }): string {
  const suffix = `${body.endsWith('\n') ? '' : '\n'}${markers}`
  const whole = `${isCut ? `${marker}\n` : ''}${body}${suffix}`
  if (Buffer.byteLength(whole) <= maxBytes) return whole
  const room = maxBytes - Buffer.byteLength(suffix) - marker.length - 1
  if (room <= 0) return lastBytes(markers, maxBytes)
  return `${marker}\n${lastBytes(body, room)}${suffix}`
}

/** The end of a text in so many bytes of UTF-8. */
export function lastBytes(text: string, maxBytes: number): string {
  const bytes = Buffer.from(text)
  const kept = bytes.subarray(Math.max(0, bytes.length - maxBytes))
  return kept.toString('utf8', partialStart(kept))
}
