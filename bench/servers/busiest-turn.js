import { readFileSync } from 'node:fs'

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

/** Linux accounts for a thread's time on a processor in nanoseconds. */
const cpuMs = () => Number(readFileSync(`/proc/self/task/${process.pid}/schedstat`, 'latin1').split(' ', 1)[0]) / 1e6
