import { CommitOrder } from './commit-order.ts'
import { RollingPool } from './rolling-pool.ts'

/** One call of a batch, as the lane needs it: what each step means is its maker's (core.md §22.3). */
export interface ScheduledCall {
  /** Read anew each time: a registry change can turn a waiting call exclusive (core.md §22.4). */
  mode(): 'parallel' | 'exclusive'
  /** Logs the call and runs its policy. Returns the body to launch, or nothing when the outcome is settled already. */
  start(): Promise<(() => Promise<void>) | undefined>
  /** Post-execute, finalize, observers, and the durable result. */
  commit(): Promise<void>
  /** The durable pair of a call that was never started (core.md §22.5). */
  skip(): Promise<void>
}

/** Bodies that may overlap in one batch, and the batch's cancellation. */
export interface BatchLimits {
  maxParallel: number
  signal: AbortSignal
}

/**
 * Runs one model step's calls (core.md §22): exclusive calls are barriers, parallel ones overlap up to `maxParallel`, and a single lane
 * owns starts and commits, in model order. After an abort started calls are drained and committed, the others skipped. Rejects with the
 * first failure of the machinery, once every body in flight has settled (core.md §22.7).
 */
export async function runBatch(calls: readonly ScheduledCall[], limits: BatchLimits): Promise<void> {
  let next = 0
  while (next < calls.length && !limits.signal.aborted) next = await runGroup(calls, next, limits)
  for (const call of calls.slice(next)) await call.skip()
}

/** Runs the group that begins at `first`; returns the index of the first call that it did not start. */
async function runGroup(calls: readonly ScheduledCall[], first: number, limits: BatchLimits): Promise<number> {
  const isParallel = calls[first]?.mode() === 'parallel'
  const end = isParallel ? calls.length : first + 1
  const pool = new RollingPool()
  const order = new CommitOrder(first, async (index) => calls[index]?.commit())
  let next = first

  const fill = async (): Promise<void> => {
    while (!limits.signal.aborted && next < end && pool.inFlight < limits.maxParallel) {
      const call = calls[next]
      if (call === undefined || (next > first && call.mode() !== 'parallel')) return
      const index = next
      next += 1
      const body = await call.start()
      if (body === undefined) order.markReady(index)
      else pool.launch(() => body().then(() => order.markReady(index)))
      await order.commitReady()
    }
  }

  try {
    await fill()
    while (pool.inFlight > 0) {
      await pool.next()
      await order.commitReady()
      await fill()
    }
  } catch (error) {
    await pool.drain()
    throw error
  }
  return next
}
