import { CommitOrder } from './commit-order.ts'
import { RollingPool } from './rolling-pool.ts'

/** One call of a batch, as the lane needs it: what each step means is its maker's (core.md §22.3). */
export interface ScheduledCall {
  /** It is to be started no more. */
  readonly isAborted: boolean
  /** Read anew each time: a registry change can turn a waiting call exclusive (core.md §22.4). */
  mode(): 'parallel' | 'exclusive'
  /** Logs the call and runs its policy. Returns the body to launch, or nothing when the outcome is settled already. */
  start(): Promise<(() => Promise<void>) | undefined>
  /** Post-execute, finalize, observers, and the durable result. */
  commit(): Promise<void>
  /** The durable pair of a call that was aborted before it was started (core.md §22.5). */
  skip(): Promise<void>
}

/**
 * Runs one model step's calls (core.md §22): exclusive calls are barriers, parallel ones overlap up to `maxParallel`, and a single lane
 * owns starts and commits, in model order. An abort of all calls drains and commits the started ones and skips the others. Rejects
 * with the first failure of the machinery, once every body in flight has settled (core.md §22.7).
 */
export function runBatch(calls: readonly ScheduledCall[], maxParallel: number): Promise<void> {
  const [only] = calls
  return only !== undefined && calls.length === 1 ? runAlone(only) : runGroups(calls, maxParallel)
}

async function runGroups(calls: readonly ScheduledCall[], maxParallel: number): Promise<void> {
  for (let next = 0; next < calls.length;) next = await runGroup(calls, next, maxParallel)
}

/** There is nothing to overlap with and no order to keep. */
async function runAlone(call: ScheduledCall): Promise<void> {
  if (call.isAborted) return call.skip()
  const body = await call.start()
  if (body !== undefined) await body()
  await call.commit()
}

const mayOverlap = (call: ScheduledCall): boolean => call.isAborted || call.mode() === 'parallel'

/** Runs the group that begins at `first`; returns the index of the first call that it did not take. */
async function runGroup(calls: readonly ScheduledCall[], first: number, maxParallel: number): Promise<number> {
  const pool = new RollingPool()
  const order = new CommitOrder(first)
  let next = first
  let isBarrier = false

  const fill = async (): Promise<void> => {
    while (!isBarrier && pool.inFlight < maxParallel) {
      const call = calls[next]
      if (call === undefined) return
      if (!mayOverlap(call)) {
        if (next > first) return
        isBarrier = true
      }
      const index = next
      next += 1
      if (call.isAborted) order.markReady(index, () => call.skip())
      else {
        const body = await call.start()
        if (body === undefined) order.markReady(index, () => call.commit())
        else pool.launch(() => body().then(() => order.markReady(index, () => call.commit())))
      }
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
