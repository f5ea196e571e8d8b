import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../../server/config/schema.ts'
import { SqliteLog } from '../../server/event-log/sqlite/log.ts'
import { CallMetrics } from './call-metrics.ts'
import { MetricSet } from './metric-set.ts'

declare module 'fastify' {
  interface FastifyInstance {
    metrics: MetricSet
  }
}

const linkStates = ['connecting', 'ready', 'disconnected', 'stopped', 'closed'] as const
const jobStatuses = ['running', 'stopping', 'completed', 'killed', 'failed', 'lost'] as const

/**
 * What `/metrics` shows (docs/metrics.md). Calls and refusals are counted as they come; everything else is looked at when somebody
 * scrapes. Comes after all that it looks at.
 */
export const metrics = fp(
  async (fastify: FastifyInstance, { metrics: { maxTools } }: Pick<Config, 'metrics'>) => {
    const set = new MetricSet()
    fastify.decorate('metrics', set)
    fastify.callObservers.add(new CallMetrics(set, maxTools))
    countRefusals(fastify, set)
    observeLog(fastify, set)
    set.onScrape(() => lookAtWork(fastify, set))
    set.onScrape(() => lookAtProcess(fastify, set))
  },
  {
    name: 'metrics',
    fastify: '5.x',
    dependencies: ['calls', 'events', 'jobs', 'terminals', 'approvals', 'code-runtime']
  }
)

function countRefusals({ invocations, shedding }: FastifyInstance, set: MetricSet): void {
  const counts = new Map<string, () => void>()
  const count = (limit: string): void => {
    const known = counts.get(limit) ?? set.counting('toolwright_requests_refused_total', [limit])
    counts.set(limit, known)
    known()
  }
  invocations.parts.admission.onRefused(count)
  shedding.onShed(count)
}

function observeLog({ eventLog }: FastifyInstance, set: MetricSet): void {
  if (!(eventLog instanceof SqliteLog)) return
  const batch = set.observing('toolwright_log_batch_appends')
  const append = set.observing('toolwright_log_append_duration_seconds')
  eventLog.onBatch((sinces, now) => {
    batch(sinces.length)
    for (const { since } of sinces) append((now - since) / 1000)
  })
}

async function lookAtWork(fastify: FastifyInstance, set: MetricSet): Promise<void> {
  const { invocations, callEngine, eventLog, fanOut, connections, jobs, terminals, approvals, scopes } = fastify
  const { admission } = invocations.parts
  set.set('toolwright_requests_running', admission.running)
  set.set('toolwright_requests_queued', admission.waiting)
  set.set('toolwright_calls_live', callEngine.calls.size)
  set.set('toolwright_log_available', eventLog.state === 'open' ? 1 : 0)
  set.set('toolwright_subscribers', fanOut.size)
  set.set('toolwright_subscriber_lag_events', fanOut.lag)
  set.set('toolwright_sockets', connections.size)
  const programs = (await fastify.codeRuntime)?.load()
  set.set('toolwright_programs_running', programs?.running ?? 0)
  set.set('toolwright_programs_queued', programs?.queued ?? 0)
  set.set('toolwright_worlds_spare', programs?.spares ?? 0)
  set.set('toolwright_worlds_stuck', programs?.stuck ?? 0)
  const listed = jobs.all()
  for (const status of jobStatuses) {
    set.set('toolwright_jobs', listed.filter(({ job }) => job.status === status).length, [status])
  }
  set.set('toolwright_terminals', terminals.all().length)
  const servers = fastify.hasDecorator('mcpBridge') ? fastify.mcpBridge.list() : []
  for (const state of linkStates) {
    set.set('toolwright_mcp_servers', servers.filter(({ server }) => server.state.state === state).length, [state])
  }
  set.set('toolwright_approvals_pending', approvals.pending.values().length)
  set.set('toolwright_scopes', scopes.all().length)
}

function lookAtProcess({ shedding }: FastifyInstance, set: MetricSet): void {
  const { user, system } = process.cpuUsage()
  const { rss, heapUsed } = process.memoryUsage()
  set.set('toolwright_event_loop_delay_seconds', shedding.loopDelayMs / 1000)
  set.setTotal('process_cpu_seconds_total', (user + system) / 1e6)
  set.set('process_resident_memory_bytes', rss)
  set.set('nodejs_heap_size_used_bytes', heapUsed)
  set.set('process_start_time_seconds', performance.timeOrigin / 1000)
}
