// Tells how long the server's main loop was held up: `loop_delay` gives what was seen since it was last called, and begins anew.
// `busiest` is what the main thread itself took of it.
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { watchBusiestTurn } from './busiest-turn.js'

/** @type {(authoring: import('../../plugins/engine/operator-plugins.ts').Authoring) => unknown} */
export default ({ definePlugin, defineTool, text }) =>
  definePlugin({ name: 'bench-loop-delay' }, (tools) => {
    const delay = monitorEventLoopDelay({ resolution: 1 })
    delay.enable()
    const busiest = watchBusiestTurn()
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
            busiest: busiest.take()
          }
          delay.reset()
          return seen
        }
      })
    )
  })
