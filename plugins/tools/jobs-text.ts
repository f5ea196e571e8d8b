import type { Job } from '../../server/backends/jobs/jobs.ts'
import { partialStart } from '../../server/backends/subprocess/utf8-cut.js'

/** `[status: completed, exit code: 0]` (backends.md §4.3). */
export const statusLine = ({ status, detail }: Pick<Job, 'status' | 'detail'>): string =>
  `[status: ${status}${detail === undefined ? '' : `, ${detail}`}]`

/** What was read of a job, with its status as the last line. */
export function renderOutput(text: string, job: Job): string {
  const body = text === '' ? '(no new output)' : text
  return `${body}${body.endsWith('\n') ? '' : '\n'}${statusLine(job)}`
}

/** One line a job, in the order given; a label of several lines is shown in one. */
export function renderList(jobs: readonly Job[]): string {
  if (jobs.length === 0) return '(no background jobs)'
  return jobs
    .map(({ id, kind, status, label }) => `${id} [${kind}] ${status} — ${label.replaceAll(/\s*\n\s*/g, ' ')}`)
    .join('\n')
}

const truncationMarker = '[output truncated]\n'

/**
 * A text within `maxBytes`: its tail, with a marker in front where there is room for one, and the status line at its end whole unless that
 * alone is too long (backends.md §4.3). Undefined when it fits as it is.
 */
export function capText(text: string, maxBytes: number): string | undefined {
  if (Buffer.byteLength(text) <= maxBytes) return undefined
  const suffix = /\n\[status: [^\n]*\]$/.exec(text)?.[0] ?? ''
  const room = maxBytes - Buffer.byteLength(suffix)
  if (room <= 0) return tail(suffix.slice(1), maxBytes)
  const marker = room > 2 * truncationMarker.length ? truncationMarker : ''
  const body = suffix === '' ? text : text.slice(0, -suffix.length)
  return `${marker}${tail(body, room - marker.length)}${suffix}`
}

function tail(text: string, maxBytes: number): string {
  const bytes = Buffer.from(text)
  const kept = bytes.subarray(Math.max(0, bytes.length - maxBytes))
  return kept.toString('utf8', partialStart(kept))
}
