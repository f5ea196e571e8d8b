import { Type } from '@sinclair/typebox'
import type { JobStatus } from '../../server/backends/jobs/jobs.ts'

export const JobId = Type.String({ minLength: 1, maxLength: 256, description: 'Id of a job, as `bash-1`.' })

export const Job = Type.Object({
  id: Type.String(),
  kind: Type.String(),
  label: Type.String({ description: 'What it does: of a command, the command.' }),
  status: Type.Unsafe<JobStatus>({
    type: 'string',
    enum: ['running', 'stopping', 'completed', 'killed', 'failed', 'lost'],
    description: '`lost`: it was running when its server ended.'
  }),
  detail: Type.Optional(Type.String({ description: 'How it ended.' })),
  startedAt: Type.Integer({ description: 'Epoch milliseconds.' }),
  finishedAt: Type.Optional(Type.Integer({ description: 'Epoch milliseconds.' })),
  session: Type.Optional(Type.String({ description: 'Whose it is; absent: nobody’s.' })),
  scope: Type.Optional(Type.String({ description: 'The scope of that session.' }))
})

export const JobOutput = Type.Object({
  text: Type.String(),
  from: Type.Integer({
    description:
      'Where `text` begins: later than asked for where that is no longer kept, earlier where it was beyond the end.'
  }),
  next: Type.Integer({ description: 'The `after` of the next request.' }),
  truncated: Type.Boolean({ description: 'Output between `after` and `from` is no longer kept.' }),
  isEnd: Type.Boolean({ description: 'The job has ended, and `next` is the end of its output.' }),
  job: Job
})

/** A cursor into an output: read as a number only when it is one, so that `1e3`, `0x10` and blanks are refused. */
export const Cursor = Type.String({
  pattern: '^[0-9]{1,15}$',
  description: 'An offset in bytes: the `next` of the answer before.'
})
