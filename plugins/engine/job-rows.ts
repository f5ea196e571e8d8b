import type { PastJob } from '../../server/backends/jobs/job-record.ts'
import type { JobChange } from '../../server/backends/jobs/job-registry.ts'
import type { JobOwner } from '../../server/backends/jobs/jobs.ts'
import type { EventLog, Row, TableWrite } from '../../server/event-log/event-log.ts'

/** More jobs than are ever listed, and more kinds than there are. */
const maxRows = 100_000

/** What is read of a job whose server has ended, instead of its output. */
const goneOutput = '[its output ended with the server that ran it]'

/** The numbers given last, by kind. */
export async function readLastNumbers(log: EventLog): Promise<[kind: string, last: number][]> {
  const rows = await log.rows('job_numbers', {}, maxRows)
  return rows.map((row) => [String(row['kind']), Number(row['last'])])
}

/** What changes in the tables with a job. */
export function rowWrites({ job, owner, change }: JobChange): TableWrite[] {
  const { id, kind, label, status, detail = null, startedAt, finishedAt = null } = job
  if (change === 'removed') return [{ table: 'jobs', op: 'delete', row: { id } }]
  const session = owner?.id ?? null
  const row: Row = { id, session, kind, label, status, detail, started_at: startedAt, finished_at: finishedAt }
  if (change === 'changed') return [{ table: 'jobs', op: 'put', row }]
  const last = Number(id.slice(kind.length + 1))
  return [
    { table: 'jobs', op: 'put', row },
    { table: 'job_numbers', op: 'put', row: { kind, last } }
  ]
}

/**
 * The jobs that earlier runs of the server have left, oldest first: what was running is lost (backends.md §4.1). Those of sessions that
 * `ownerOf` does not know any more come as `removal`.
 */
export async function readPastJobs(
  log: EventLog,
  ownerOf: (session: string) => Promise<JobOwner | undefined>
): Promise<{ jobs: PastJob[]; removal: TableWrite[] }> {
  const jobs: PastJob[] = []
  const removal: TableWrite[] = []
  for (const row of await log.rows('jobs', {}, maxRows)) {
    const id = String(row['id'])
    const owner = row['session'] === null ? undefined : await ownerOf(String(row['session']))
    if (row['session'] !== null && owner === undefined) {
      removal.push({ table: 'jobs', op: 'delete', row: { id } })
      continue
    }
    const wasLive = row['status'] === 'running' || row['status'] === 'stopping'
    jobs.push({
      id,
      kind: String(row['kind']),
      label: String(row['label']),
      status: wasLive ? 'lost' : (row['status'] as PastJob['status']),
      ...(row['detail'] === null ? {} : { detail: String(row['detail']) }),
      startedAt: Number(row['started_at']),
      ...(row['finished_at'] === null ? {} : { finishedAt: Number(row['finished_at']) }),
      owner,
      output: goneOutput
    })
  }
  return { jobs, removal }
}
