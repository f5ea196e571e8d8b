import { openSync, readSync } from 'node:fs'

/**
 * Watches the main thread: `take` gives the most processor time in milliseconds that it took between two looks at it, 2 ms apart where it is
 * not held up, since the last call. What a delay was longer than that was spent waiting for a processor.
 */
export function watchBusiestTurn() {
  let last = cpuMs()
  let busiest = 0
  const timer = setInterval(() => {
    const now = cpuMs()
    busiest = Math.max(busiest, now - last)
    last = now
  }, 2).unref()
  return {
    take: () => {
      const taken = busiest
      busiest = 0
      return taken
    },
    stop: () => clearInterval(timer)
  }
}

// Opened and allocated anew for each look, these took a quarter of the main thread's time.
const account = openSync(`/proc/self/task/${process.pid}/schedstat`, 'r')
const bytes = Buffer.alloc(100)

/** Linux accounts for a thread's time on a processor in nanoseconds. */
const cpuMs = () =>
  Number(bytes.toString('latin1', 0, readSync(account, bytes, 0, bytes.length, 0)).split(' ', 1)[0]) / 1e6
