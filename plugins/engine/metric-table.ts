/** One metric: its type, its labels and what it says. docs/metrics.md has the same table; a test holds the two together. */
export interface MetricRow {
  readonly type: 'counter' | 'gauge' | 'histogram'
  readonly labels: readonly string[]
  readonly help: string
  /** Upper bounds of a histogram. */
  readonly buckets?: readonly number[]
}

const seconds = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 60, 600]

/** Every metric by its name. A label's values come from a fixed set; only those of `tool` are names, and `metrics.maxTools` bounds them. */
export const metricTable = {
  toolwright_calls_total: {
    type: 'counter',
    labels: ['tool', 'outcome', 'stage'],
    help: 'Calls with a result, those of programs too; `stage` is what first made a failure of one, else `none`.'
  },
  toolwright_call_duration_seconds: {
    type: 'histogram',
    labels: ['tool'],
    help: 'Time of a call from its making to its result, waiting for people included.',
    buckets: seconds
  },
  toolwright_stage_duration_seconds: {
    type: 'histogram',
    labels: ['stage'],
    help: 'Time of a stage of a call; `pre-execute` has the approvals, `dispatch` the body.',
    buckets: seconds
  },
  toolwright_requests_refused_total: {
    type: 'counter',
    labels: ['limit'],
    help: 'Requests refused by admission or load shedding, by the name of the limit.'
  },
  toolwright_requests_running: { type: 'gauge', labels: [], help: 'Requests that hold a place.' },
  toolwright_requests_queued: { type: 'gauge', labels: [], help: 'Requests that wait for a place.' },
  toolwright_calls_live: { type: 'gauge', labels: [], help: 'Calls accepted and not answered yet.' },
  toolwright_log_append_duration_seconds: {
    type: 'histogram',
    labels: [],
    help: 'Time from an append to its commit, or its failure.',
    buckets: seconds
  },
  toolwright_log_batch_appends: {
    type: 'histogram',
    labels: [],
    help: 'Appends in one transaction of the log.',
    buckets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
  },
  toolwright_log_available: { type: 'gauge', labels: [], help: '1 while the log can store, else 0.' },
  toolwright_subscribers: { type: 'gauge', labels: [], help: 'Subscriptions to events that are open.' },
  toolwright_subscriber_lag_events: {
    type: 'gauge',
    labels: [],
    help: 'Events that the subscription which is farthest behind has yet to be sent.'
  },
  toolwright_sockets: { type: 'gauge', labels: [], help: 'Open WebSockets and event streams.' },
  toolwright_programs_running: { type: 'gauge', labels: [], help: 'Programs running, each in a world of its own.' },
  toolwright_programs_queued: { type: 'gauge', labels: [], help: 'Programs that wait for their turn.' },
  toolwright_worlds_spare: { type: 'gauge', labels: [], help: 'Worlds that are started and wait for their program.' },
  toolwright_worlds_stuck: {
    type: 'gauge',
    labels: [],
    help: 'Worlds that have not ended although they were told to.'
  },
  toolwright_jobs: { type: 'gauge', labels: ['status'], help: 'Background jobs listed, by status.' },
  toolwright_terminals: { type: 'gauge', labels: [], help: 'Terminals that are open.' },
  toolwright_mcp_servers: { type: 'gauge', labels: ['state'], help: 'Links to MCP servers, by state.' },
  toolwright_approvals_pending: { type: 'gauge', labels: [], help: 'Asks and questions that wait for a person.' },
  toolwright_scopes: { type: 'gauge', labels: [], help: 'Scopes there are.' },
  toolwright_event_loop_delay_seconds: {
    type: 'gauge',
    labels: [],
    help: 'Mean delay of the event loop in the last second.'
  },
  process_cpu_seconds_total: { type: 'counter', labels: [], help: 'Processor time of the process.' },
  process_resident_memory_bytes: { type: 'gauge', labels: [], help: 'Resident memory of the process.' },
  nodejs_heap_size_used_bytes: { type: 'gauge', labels: [], help: 'JavaScript heap in use.' },
  process_start_time_seconds: { type: 'gauge', labels: [], help: 'When the process started, in Unix time.' }
} as const satisfies Record<string, MetricRow>

export type MetricName = keyof typeof metricTable
