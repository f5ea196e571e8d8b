import { setTimeout as sleep } from 'node:timers/promises'
import { type Static, Type } from '@sinclair/typebox'
import type { FastifyInstance } from 'fastify'
import { isAgent } from '../plugins/engine/jobs.ts'
import type { Principal } from '../server/auth/principal.ts'
import type { JobEntry, Jobs, JobWindow, JobWindowQuery } from '../server/backends/jobs/jobs.ts'
import { RequestError } from '../server/errors.ts'
import { pollEnd } from './poll-end.ts'
import { reachScope } from './reach.ts'
import { errorResponses } from './schemas/error-responses.ts'
import { pageQuery, ScopeId, SessionId } from './schemas/ids.ts'
import { Cursor, Job, JobId, JobOutput } from './schemas/jobs.ts'
import type { TypeBoxProvider } from './schemas/type-provider.ts'

/** Longest long poll, and how often it looks, in milliseconds. */
const maxWaitMs = 60_000
const lookMs = 100

const show = ({ job, owner }: JobEntry): Static<typeof Job> => ({
  ...job,
  ...(isAgent(owner) ? { session: owner.id, scope: owner.scope.id } : {})
})

/** Background jobs, for people and operators (api.md §7). */
export async function jobRoutes(fastify: FastifyInstance): Promise<void> {
  const app = fastify.withTypeProvider<TypeBoxProvider>()

  /** Jobs of nobody are seen by those who see everything. */
  const reaches = (principal: Principal, { owner }: JobEntry, scopeId = principal.scope): boolean => {
    const scope = app.scopes.get(scopeId)
    if (scope === undefined) return false
    return isAgent(owner) ? owner.scope.isWithin(scope) : scope.parent === undefined
  }
  const find = (principal: Principal, id: string): JobEntry => {
    const entry = app.jobs.find(id)
    if (entry === undefined || !reaches(principal, entry)) {
      throw new RequestError('UNKNOWN_JOB', `There is no job ${JSON.stringify(id)}.`)
    }
    return entry
  }

  app.get(
    '/jobs',
    {
      config: { action: 'events:read' },
      schema: {
        summary: 'The background jobs of a scope and of all below it, in order of their start, finished ones included',
        querystring: Type.Object(
          {
            ...pageQuery,
            scope: Type.Optional(ScopeId),
            session: Type.Optional(SessionId),
            after: Type.Optional(Type.String({ maxLength: 256, description: 'The `next` of the page before.' }))
          },
          { additionalProperties: false }
        ),
        response: {
          200: Type.Object({
            jobs: Type.Array(Job),
            next: Type.Optional(Type.String({ description: 'The `after` of the next page; absent at the end.' }))
          }),
          ...errorResponses('UNKNOWN_SCOPE', 'CURSOR_EXPIRED')
        }
      }
    },
    async ({ principal, query }) => {
      const { limit = 100, session, after } = query
      const { id: scope } = reachScope(app, principal, query.scope)
      const reached = app.jobs.all().filter((entry) => reaches(principal, entry, scope))
      const start = after === undefined ? 0 : reached.findIndex(({ job }) => job.id === after) + 1
      if (after !== undefined && start === 0)
        throw new RequestError('CURSOR_EXPIRED', 'The job of this cursor is no longer listed.')
      const rest = reached.slice(start).filter(({ owner }) => session === undefined || owner?.id === session)
      const page = rest.slice(0, limit)
      const last = page.at(-1)
      return { jobs: page.map(show), ...(last !== undefined && rest.length > limit ? { next: last.job.id } : {}) }
    }
  )

  app.get(
    '/jobs/:id/output',
    {
      config: { action: 'events:read' },
      schema: {
        summary: 'What a job has printed, from an offset on',
        description:
          'Takes nothing away from what `job_output` will give. Text is cut between characters. At the end of the output of a job that goes on it ' +
          'waits for more; an offset beyond the end means the end.',
        params: Type.Object({ id: JobId }),
        querystring: Type.Object(
          {
            after: Type.Optional(Cursor),
            maxBytes: Type.Optional(
              Type.Integer({
                minimum: 1,
                maximum: 1024 * 1024,
                default: 65_536,
                description: 'At most so many bytes, but one character at least.'
              })
            ),
            stream: Type.Optional(
              Type.Unsafe<'stdout' | 'stderr'>({ type: 'string', enum: ['stdout', 'stderr'], default: 'stdout' })
            ),
            waitMs: Type.Optional(
              Type.Integer({
                minimum: 0,
                maximum: maxWaitMs,
                default: 10_000,
                description: 'How long it waits for more.'
              })
            )
          },
          { additionalProperties: false }
        ),
        response: { 200: JobOutput, ...errorResponses('UNKNOWN_JOB') }
      }
    },
    async ({ principal, params, query }, reply) => {
      const { after = '0', maxBytes = 65_536, stream = 'stdout', waitMs = 10_000 } = query
      find(principal, params.id)
      const { signal, end } = pollEnd(app, reply, waitMs)
      try {
        const read = await readOutput(app.jobs, params.id, { after: Number(after), maxBytes, stream }, signal)
        const { text, from, next, lossy: truncated } = read.window
        return { text, from, next, truncated, isEnd: read.isEnd, job: show(find(principal, params.id)) }
      } finally {
        end()
      }
    }
  )

  app.post(
    '/jobs/:id/kill',
    {
      config: { action: 'jobs:kill' },
      schema: {
        summary: 'Tell a job to end',
        description: 'Answers at once; `job/changed` tells when it has. Again does nothing more.',
        params: Type.Object({ id: JobId }),
        body: Type.Optional(
          Type.Object({ reason: Type.Optional(Type.String({ maxLength: 4096 })) }, { additionalProperties: false })
        ),
        response: {
          200: Type.Object({
            outcome: Type.Unsafe<'cancellation-requested' | 'already-finished'>({
              type: 'string',
              enum: ['cancellation-requested', 'already-finished']
            }),
            job: Job
          }),
          ...errorResponses('UNKNOWN_JOB')
        }
      }
    },
    async ({ principal, params, body }) => {
      const { owner } = find(principal, params.id)
      const { outcome, job } = app.jobs.kill(params.id, owner, body?.reason)
      return { outcome, job: show({ job, owner }) }
    }
  )
}

/** A window that has something in it, or the end; an empty one when `until` fires first. */
async function readOutput(
  jobs: Jobs,
  id: string,
  query: JobWindowQuery,
  until: AbortSignal
): Promise<{ window: JobWindow; isEnd: boolean }> {
  for (let { after } = query; ;) {
    // Before the output: what has ended by now prints nothing more.
    const state = jobs.find(id)?.job
    const hasEnded = state === undefined || state.finishedAt !== undefined || state.status === 'lost'
    const window = await jobs.readWindow(id, { ...query, after })
    after = window.next
    const rest = window.text === '' ? window : await jobs.readWindow(id, { ...query, after, maxBytes: 1 })
    const isEnd = hasEnded && rest.text === ''
    if (window.text !== '' || isEnd || until.aborted) return { window, isEnd }
    await sleep(lookMs, undefined, { signal: until }).catch(() => undefined)
  }
}
