import { setTimeout as wait } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import fp from 'fastify-plugin'
import type { Config } from '../../server/config/schema.ts'
import type { SqliteLog } from '../../server/event-log/sqlite/log.ts'
import type { RetentionStep } from '../../server/event-log/sqlite/protocol.ts'

/** Between two looks at what is too old or too much. */
const roundMs = 60_000

export interface RetentionOptions {
  log: SqliteLog
  store: Pick<Config['store'], 'retentionMs' | 'retentionBytes'>
}

/**
 * Deletes what the log holds beyond its age and its size, a step at a time, and with a session's last event, or the session, what was
 * spilled of it (reliability.md §2.5). One round runs at the start, then one a minute.
 */
export const retention = fp(
  async (fastify: FastifyInstance, { log, store: { retentionMs, retentionBytes } }: RetentionOptions) => {
    const stop = new AbortController()
    const removeSpilled = async (session: string): Promise<void> => {
      try {
        await fastify.spill.removeSession(session)
      } catch (error) {
        fastify.log.warn({ err: error, session }, 'the spilled texts of a session were not removed')
      }
    }

    /** Steps of one kind until none is left to make; how many events went. */
    async function repeat(step: Omit<RetentionStep, 'after'>): Promise<number> {
      let deleted = 0
      for (let after: number | undefined = -1; after !== undefined && !stop.signal.aborted;) {
        const progress = await log.retain({ ...step, after })
        deleted += progress.deleted
        after = progress.next
        for (const session of progress.emptied) await removeSpilled(session)
      }
      return deleted
    }

    async function round(): Promise<void> {
      try {
        let deleted = 0
        if (retentionMs > 0) deleted += await repeat({ before: Date.now() - retentionMs })
        if (retentionBytes > 0) deleted += await repeat({ bytes: retentionBytes })
        if (deleted === 0) return
        await repeat({})
        fastify.log.info({ events: deleted }, 'old events were deleted')
      } catch (error) {
        if (!stop.signal.aborted) fastify.log.warn({ err: error }, 'retention failed; it tries again in a minute')
      }
    }

    async function rounds(): Promise<void> {
      while (!stop.signal.aborted) {
        await round()
        await wait(roundMs, undefined, { signal: stop.signal, ref: false }).catch(() => undefined)
      }
    }

    let running: Promise<void> | undefined
    fastify.sessions.onDelete((session) => void removeSpilled(session))
    fastify.addHook('onReady', async () => {
      running = rounds()
    })
    fastify.addHook('onClose', async () => {
      stop.abort()
      await running
    })
  },
  { name: 'retention', fastify: '5.x', dependencies: ['event-log', 'backends', 'calls'] }
)
