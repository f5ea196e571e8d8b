import type { Job } from './jobs.ts'

/** Of a label so much is quoted: it is there to be recognised by. */
const maxLabelLength = 200

/**
 * What an owner is told of a job that ended unread (backends.md §4.2), within the producer's limit where there is one: the label goes
 * first, the id and what to do with it stay in any case.
 */
export function completionNotice({ id, kind, label, status, detail }: Job, maxBytes = Infinity): string {
  const state = `[status: ${status}${detail === undefined ? '' : `, ${detail}`}]`
  const quoted =
    label.length > maxLabelLength ? `${label.slice(0, maxLabelLength).replace(/[\uD800-\uDBFF]$/, '')}…` : label
  const advice = `Use job_output with job_id "${id}" to read what it printed.`
  const versions = [
    `Background job ${id} (${kind}: ${quoted}) has ended ${state}. ${advice}`,
    `Background job ${id} (${kind}) has ended ${state}. ${advice}`
  ]
  return versions.find((text) => Buffer.byteLength(text) <= maxBytes) ?? `${id} [${status}]: use job_output`
}
