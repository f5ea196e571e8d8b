// Tells how long the server's main loop was held up: `loop_delay` gives what was seen since it was last called, and begins anew.
// `busiest` is the most processor time that the main thread took between two looks at it, 2 ms apart where it is not held up: the rest of
// a delay was spent waiting for a processor.
import { readFileSync } from 'node:fs'
import { monitorEventLoopDelay } from 'node:perf_hooks'

/** @type {(authoring: import('../../plugins/engine/operator-plugins.ts').Authoring) => unknown} */
export default ({ definePlugin, defineTool, text }) =>
  definePlugin({ name: 'bench-loop-delay' }, (tools) => {
    const delay = monitorEventLoopDelay({ resolution: 1 })
    delay.enable()
    let last = cpuMs()
    let busiest = 0
    setInterval(() => {
      const now = cpuMs()
      busiest = Math.max(busiest, now - last)
      last = now
    }, 2).unref()
    tools.register(
      defineTool({
        name: 'loop_delay',
        description:
          'Milliseconds that the main loop was held up since the last call: p50, p99, max; of its own work: busiest.',
        parameters: {},
        output: {
          schema: {
            type: 'object',
            additionalProperties: false,
            properties: Object.fromEntries(['p50', 'p99', 'max', 'busiest'].map((name) => [name, { type: 'number' }]))
          },
          render: (_args, value) => text(JSON.stringify(value))
        },
        isConcurrencySafe: () => true,
        execute: () => {
          const seen = {
            p50: delay.percentile(50) / 1e6,
            p99: delay.percentile(99) / 1e6,
            max: delay.max / 1e6,
            busiest
          }
          delay.reset()
          busiest = 0
          return seen
        }
      })
    )
  })

/** Linux accounts for a thread's time on a processor in nanoseconds. */
const cpuMs = () => Number(readFileSync(`/proc/self/task/${process.pid}/schedstat`, 'latin1').split(' ', 1)[0]) / 1e6
