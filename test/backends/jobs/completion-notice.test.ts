import { expect, it } from 'vitest'
import { completionNotice } from '../../../server/backends/jobs/completion-notice.ts'
import type { Job } from '../../../server/backends/jobs/jobs.ts'

const job: Job = {
  id: 'bash-12',
  kind: 'bash',
  label: 'make',
  status: 'completed',
  detail: 'exit code: 2',
  startedAt: 0
}

it('names the id, kind, label and status, and what to do (backends.md §4.2)', () => {
  const text = completionNotice(job)
  for (const part of ['bash-12', 'bash:', 'make', '[status: completed, exit code: 2]', 'job_output']) {
    expect(text).toContain(part)
  }
})

it.each([200, 120, 64, 1])('within %d bytes it still names the id and job_output', (limit) => {
  const text = completionNotice({ ...job, label: 'x'.repeat(5_000) }, limit)
  expect(text).toContain('bash-12')
  expect(text).toContain('use job_output'.slice(4))
  if (limit >= 64) expect(Buffer.byteLength(text)).toBeLessThanOrEqual(limit)
})

it('quotes no half of a character of a long label', () => {
  const text = completionNotice({ ...job, label: `${'a'.repeat(199)}😀${'b'.repeat(50)}` })
  expect(text).toContain(`${'a'.repeat(199)}…`)
  expect(text).not.toMatch(/[\uD800-\uDFFF]/)
})
