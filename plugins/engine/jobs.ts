import { randomUUID } from 'node:crypto'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import { completionNotice } from '../../server/backends/jobs/completion-notice.ts'
import { type JobChange, type JobCompletion, JobRegistry } from '../../server/backends/jobs/job-registry.ts'
import type { Job, JobOwner } from '../../server/backends/jobs/jobs.ts'
import type { Config } from '../../server/config/schema.ts'
import type { TableWrite } from '../../server/event-log/event-log.ts'
import type { Concerns } from '../../server/events/vocabulary.ts'
import type { Agent, Scope } from '../../server/scopes/scope.ts'
import { Session } from '../../server/sessions/session.ts'
import { readLastNumbers, readPastJobs, rowWrites } from './job-rows.ts'

declare module '../../server/events/vocabulary.ts' {
  interface LiveEvents {
    /** A background job was started, is being ended, or has ended (backends.md §4.2). */
    'job/changed': Concerns & Job
  }
}

/**
 * The background jobs (backends.md §4): they belong to sessions, end with them, with their scopes and with the server, and are stored, so
 * that the next server can tell which ones this one has left.
 */
export const jobs = fp(
  async (fastify: FastifyInstance, { jobs: limits }: Pick<Config, 'jobs'>) => {
    const { eventLog: log, sessions, scopes, liveEvents } = fastify
    const { maxConcurrentPerOwner, maxFinishedPerOwner, maxFinished } = limits
    const warn = (message: string, details: object): void => fastify.log.warn(details, message)
    const registry = new JobRegistry({
      maxConcurrentPerOwner,
      maxFinishedPerOwner,
      maxFinished,
      isOwnerLive: (owner) => owner instanceof Session && !owner.isStale && scopes.isLive(owner.scope),
      warn
    })
    let isClosing = false
    const keepers = new Map<string, () => void>()
    const endWithScope = endingWithScopes(fastify, registry)

    const write = (writes: TableWrite[], closing: boolean): void => {
      log
        .append({ writes, closing })
        .catch((error: unknown) => warn('what became of jobs was not stored', { err: error }))
    }

    const store = (change: JobChange): void => {
      // What runs when the server ends is lost to the next one, however this one ends it now.
      if (!isClosing) write(rowWrites(change), change.change !== 'started')
    }

    const follow = ({ job, owner, change }: JobChange): void => {
      if (change === 'started' && owner instanceof Session) {
        keepers.set(job.id, owner.keep())
        endWithScope(owner.scope)
      }
      if (change === 'removed') return letGo(job.id)
      liveEvents.publish('job/changed', { ...job, ...concernsOf(owner) })
      if (job.finishedAt !== undefined) letGo(job.id)
      // A scope with a job is in use, and its agent is to hear of the end.
      if (isAgent(owner)) fastify.registrations.used(owner.scope)
    }
    const letGo = (id: string): void => {
      keepers.get(id)?.()
      keepers.delete(id)
    }

    const notify = async ({ job, owner, outputLimitBytes }: JobCompletion): Promise<void> => {
      if (owner === undefined) return
      // A session that could not be stored for a moment has another object by now, or will have.
      const isGood = owner instanceof Session && !owner.isStale
      const session = isGood ? owner : await sessions.find(owner.id)
      if (session === undefined || !scopes.isLive(session.scope)) return
      session.queueContext({
        id: randomUUID(),
        role: 'user',
        content: [{ type: 'text', text: completionNotice(job, outputLimitBytes) }],
        source: { kind: 'plugin', plugin: 'jobs', form: 'notice', summary: `${job.id} ${job.status}` }
      })
      await session.append([], { closing: true })
    }

    registry.continueAfter(await readLastNumbers(log))
    registry.onChange(store)
    registry.onChange(follow)
    registry.onCompletion((completion) => {
      const { job } = completion
      notify(completion).catch((error: unknown) => warn('the end of a job was not told', { err: error, job: job.id }))
    })
    fastify.decorate('jobs', registry)
    sessions.onEnd((session) => registry.disposeOwners((owner) => owner.id === session.id))

    // The scopes that clients made are back by then.
    fastify.addHook('onReady', async () => {
      const owners = new Map<string, Agent | undefined>()
      const { jobs: past, removal } = await readPastJobs(log, async (session) => {
        if (!owners.has(session)) owners.set(session, await pastOwner(fastify, session))
        return owners.get(session)
      })
      if (removal.length > 0) write(removal, true)
      registry.restore(past)
      for (const owner of owners.values()) if (owner !== undefined) endWithScope(owner.scope)
    })
    fastify.addHook('onClose', async () => {
      isClosing = true
      await registry.dispose()
    })
  },
  { name: 'jobs', fastify: '5.x', dependencies: ['calls', 'backends', 'events'] }
)

/** Returns what has the jobs of a scope end with it, once for each. */
function endingWithScopes({ tools, scopes }: FastifyInstance, registry: JobRegistry): (scope: Scope) => void {
  const watched = new WeakSet<Scope>()
  return (scope) => {
    if (scope.parent === undefined || watched.has(scope) || !scopes.isLive(scope)) return
    watched.add(scope)
    let handle = tools
    for (const { id } of scope.chain.slice(1)) handle = handle.child(id)
    handle.onDispose(() => registry.disposeOwners((owner) => isAgent(owner) && owner.scope === scope))
  }
}

/** Who a session of an earlier run of the server stands for: nothing can be started for it, but it has an id and a scope. */
async function pastOwner({ eventLog, scopes }: FastifyInstance, session: string): Promise<Agent | undefined> {
  const [row] = await eventLog.rows('sessions', { id: session }, 1)
  const scope = scopes.get(String(row?.['scope']))
  return row === undefined || scope === undefined ? undefined : { id: session, scope }
}

/** Every owner here is a session, or stands for one. */
export const isAgent = (owner: JobOwner | undefined): owner is Agent => owner !== undefined && 'scope' in owner

/** A job of nobody is seen by those who see everything. */
const concernsOf = (owner: JobOwner | undefined): Concerns =>
  isAgent(owner) ? { session: owner.id, scope: owner.scope.id } : { scope: 'global' }
