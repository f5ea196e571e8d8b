// Tells how long the server's main loop was held up: `loop_delay` gives what was seen since it was last called, and begins anew.
import { monitorEventLoopDelay } from 'node:perf_hooks'

/** @type {(authoring: import('../../plugins/engine/operator-plugins.ts').Authoring) => unknown} */
export default ({ definePlugin, defineTool, text }) =>
  definePlugin({ name: 'bench-loop-delay' }, (tools) => {
    const delay = monitorEventLoopDelay({ resolution: 1 })
    delay.enable()
    tools.register(
      defineTool({
        name: 'loop_delay',
        description: 'Milliseconds that the main loop was held up since the last call: p50, p99, max.',
        parameters: {},
        output: {
          schema: {
            type: 'object',
            additionalProperties: false,
            properties: { p50: { type: 'number' }, p99: { type: 'number' }, max: { type: 'number' } }
          },
          render: (_args, value) => text(JSON.stringify(value))
        },
        isConcurrencySafe: () => true,
        execute: () => {
          const seen = { p50: delay.percentile(50) / 1e6, p99: delay.percentile(99) / 1e6, max: delay.max / 1e6 }
          delay.reset()
          return seen
        }
      })
    )
  })
