import type { DurableEvents } from '../events/vocabulary.ts'
import { readFrames, ZstdError } from './zstd.js'

/** What an exported session holds. */
export interface ExportReport {
  session: string
  events: number
  /** The file breaks off within its last record, or within what no turn ends after; `events` are those before. */
  isTorn: boolean
}

/** An exported file is not what was written, or not for this build. The process exits with 74. */
export class ExportError extends Error {
  override readonly name = 'ExportError'
  readonly exitCode = 74
  readonly code: 'EXPORT_CORRUPT' | 'EXPORT_UNSUPPORTED'

  constructor(code: 'EXPORT_CORRUPT' | 'EXPORT_UNSUPPORTED', message: string, options?: ErrorOptions) {
    super(message, options)
    this.code = code
  }
}

/** The `version` of the header line that this build writes and reads. */
const headerVersion = 0

const knownTypes: Record<keyof DurableEvents, true> = {
  'turn/start': true,
  'turn/end': true,
  'step/start': true,
  'step/end': true,
  'user/message': true,
  'tool/call': true,
  'tool/result': true,
  'tool/code-dispatch-start': true,
  'tool/code-dispatch': true,
  'approval/asked': true,
  'approval/decided': true,
  'approval/policy': true,
  'sandbox/mode': true,
  'permission/preset': true,
  'todo/write': true
}

interface ExportedEvent {
  type: string
  seq: number
  time: number
  ignorable?: boolean
}

/**
 * Checks a `session.jsonl.zstd` (backends.md §14.5). A record that is bad, or does not follow the one before, is corruption when a valid
 * `turn/end` stands at or after it; else it and all behind it are a torn tail. Throws `ExportError`.
 */
export function verifyExport(bytes: Uint8Array): ExportReport {
  const { lines, isTorn } = readLines(bytes)
  const session = readHeader(lines[0])
  let next: number | undefined
  for (const [index, line] of lines.slice(1).entries()) {
    const event = readEvent(line, next)
    if (event === undefined) {
      const rest = lines.slice(index + 1)
      if (rest.some((each) => readEvent(each)?.type === 'turn/end')) {
        throw new ExportError('EXPORT_CORRUPT', `record ${index + 1} of session ${session} is damaged`)
      }
      return { session, events: index, isTorn: true }
    }
    assertKnown(event)
    next = event.seq + 1
  }
  return { session, events: lines.length - 1, isTorn }
}

function readLines(bytes: Uint8Array): { lines: string[]; isTorn: boolean } {
  const parts: Uint8Array[] = []
  let isTorn = false
  try {
    for (const frame of readFrames(bytes)) {
      parts.push(frame.plain)
      isTorn = frame.isTorn
    }
  } catch (error) {
    if (!(error instanceof ZstdError)) throw error
    throw new ExportError('EXPORT_CORRUPT', `a frame of the file is damaged: ${error.message}`, { cause: error })
  }
  // The header is worth something only in a whole frame.
  if (parts.length === 0 || (parts.length === 1 && isTorn)) throw new ExportError('EXPORT_CORRUPT', 'no whole header')
  const lines = Buffer.concat(parts).toString().split('\n')
  const rest = lines.pop()
  return { lines, isTorn: isTorn || rest !== '' }
}

/** The session's id. */
function readHeader(line = ''): string {
  const header = parse(line)
  if (header?.['type'] !== 'session' || typeof header['id'] !== 'string') {
    throw new ExportError('EXPORT_CORRUPT', 'the first line is not the header of a session')
  }
  const { version } = header
  if (version === headerVersion) return header['id']
  const isNewer = typeof version === 'number' && version > headerVersion
  const fix = isNewer ? 'a newer build is needed to read it' : 'no build reads it any more'
  throw new ExportError('EXPORT_UNSUPPORTED', `the file has format version ${String(version)}: ${fix}`)
}

/** Undefined for what is no event, or not the one of this seq. */
function readEvent(line: string, seq?: number): ExportedEvent | undefined {
  const event: Partial<ExportedEvent> | undefined = parse(line)
  if (event === undefined || typeof event.type !== 'string' || !Object.hasOwn(event, 'data')) return undefined
  if (!Number.isSafeInteger(event.seq) || (event.seq ?? -1) < 0 || !Number.isSafeInteger(event.time)) return undefined
  if (seq !== undefined && event.seq !== seq) return undefined
  return event as ExportedEvent
}

function assertKnown({ type, seq, ignorable }: ExportedEvent): void {
  if (Object.hasOwn(knownTypes, type) || ignorable === true) return
  throw new ExportError('EXPORT_UNSUPPORTED', `event ${seq} is of a type that this build does not know: ${type}`)
}

function parse(line: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(line)
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined
  } catch {
    return undefined
  }
}
