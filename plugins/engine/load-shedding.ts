import { monitorEventLoopDelay } from 'node:perf_hooks'
import { getHeapStatistics } from 'node:v8'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import fp from 'fastify-plugin'
import type { Action } from '../../server/auth/principal.ts'
import type { Config } from '../../server/config/schema.ts'
import { RequestError } from '../../server/errors.ts'

declare module 'fastify' {
  interface FastifyInstance {
    shedding: Shedding
  }
}

/** What is a way out of an overload, or tells of it, is served also then (reliability.md §3.1). */
const served: ReadonlySet<Action | undefined> = new Set<Action>([
  'approvals:read',
  'approvals:decide',
  'calls:cancel',
  'jobs:kill',
  'metrics:read',
  'tokens:manage',
  'server:administer'
])

type Pressure = 'eventLoopDelay' | 'heapUsedBytes' | 'rssBytes'

const settingOf = {
  eventLoopDelay: 'maxLoopDelayMs',
  heapUsedBytes: 'maxHeapBytes',
  rssBytes: 'maxRssBytes'
} as const satisfies Record<Pressure, keyof Config['shedding']>

type ShedLimit = `shedding.${(typeof settingOf)[Pressure]}`

/** How often is looked, in milliseconds. */
const sampleMs = 1_000

/** Of the histogram, in milliseconds: every delay is at least this. */
const resolutionMs = 10

/** Refuses work while the process itself is in trouble. */
export class Shedding {
  readonly #limits: Readonly<Record<Pressure, number>>
  readonly #delays = monitorEventLoopDelay({ resolution: resolutionMs })
  readonly #listeners = new Set<(limit: ShedLimit) => void>()
  #timer: NodeJS.Timeout | undefined
  #loopDelayMs = 0
  /** What was beyond its limit when it was last looked. */
  #pressure: Pressure | undefined

  constructor(limits: Readonly<Record<Pressure, number>>) {
    this.#limits = limits
  }

  /** Mean delay of the event loop between the last two looks, in milliseconds. */
  get loopDelayMs(): number {
    return this.#loopDelayMs
  }

  start(): void {
    this.#delays.enable()
    this.#timer = setInterval(() => this.#look(), sampleMs).unref()
  }

  stop(): void {
    clearInterval(this.#timer)
    this.#delays.disable()
  }

  /** Throws `OVERLOADED`, naming the limit, while there is pressure. */
  assertNone(): void {
    if (this.#pressure === undefined) return
    const limit: ShedLimit = `shedding.${settingOf[this.#pressure]}`
    for (const listener of this.#listeners) listener(limit)
    throw new RequestError('OVERLOADED', undefined, { details: { limit, value: this.#limits[this.#pressure] } })
  }

  /** Hears of each refusal by its limit; returns the undo. */
  onShed(listener: (limit: ShedLimit) => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  #look(): void {
    const { mean } = this.#delays
    this.#delays.reset()
    // Without a sample there is nothing to go by: a process that was just started, or stopped for a while, is not overloaded.
    this.#loopDelayMs = Number.isFinite(mean) ? Math.max(0, mean / 1e6 - resolutionMs) : 0
    const { heapUsed, rss } = process.memoryUsage()
    const usage = { eventLoopDelay: this.#loopDelayMs, heapUsedBytes: heapUsed, rssBytes: rss }
    this.#pressure = (Object.keys(settingOf) as Pressure[]).find(
      (pressure) => this.#limits[pressure] > 0 && usage[pressure] > this.#limits[pressure]
    )
  }
}

/**
 * The last line of defence (reliability.md §3.1): beyond a delay of the event loop, or a use of memory, requests are refused before
 * anything is done for them. Admission is what keeps a server from getting there. Comes before `auth`: to look at a token is work too.
 *
 * `@fastify/under-pressure` does nearly this, but takes a second without a sample for an infinite delay, so that a start on a busy
 * machine is followed by refusals, and its histogram outlives the server.
 */
export const loadShedding = fp(
  async (fastify: FastifyInstance, { shedding }: Pick<Config, 'shedding'>) => {
    const state = new Shedding({
      eventLoopDelay: shedding.maxLoopDelayMs,
      heapUsedBytes: shedding.maxHeapBytes || Math.floor(getHeapStatistics().heap_size_limit * 0.9),
      rssBytes: shedding.maxRssBytes
    })
    fastify.decorate('shedding', state)
    fastify.addHook('onRequest', (request, _reply, done) => {
      if (!isServed(request)) state.assertNone()
      done()
    })
    fastify.addHook('onReady', async () => state.start())
    fastify.addHook('onClose', async () => state.stop())
  },
  { name: 'load-shedding', fastify: '5.x' }
)

function isServed({ routeOptions: { config } }: FastifyRequest): boolean {
  return config.isPublic === true || served.has(config.action)
}
