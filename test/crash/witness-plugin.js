// Tools whose bodies leave a line in a file of their own, so that what ran can be told from what the log says (reliability.md C1).
import { appendFileSync } from 'node:fs'
import { setTimeout as wait } from 'node:timers/promises'

const file = process.env['CRASH_BODIES'] ?? ''
const diesIn = process.env['CRASH_DIE_IN'] ?? ''

/** @param {string} point */
function dieAt(point) {
  if (diesIn === point) process.kill(process.pid, 'SIGKILL')
}

/** @type {(authoring: import('../../plugins/engine/operator-plugins.ts').Authoring) => unknown} */
export default ({ definePlugin, defineTool, text, ask }) =>
  definePlugin({ name: 'witness' }, (tools) => {
    const tool = (/** @type {string} */ name, /** @type {boolean} */ isParallel) =>
      tools.register(
        defineTool({
          name,
          description: 'Leaves a line and returns its text.',
          parameters: { text: { type: 'string', required: true }, ms: { type: 'integer' } },
          output: { schema: { type: 'string' }, render: (_args, value) => text(value) },
          isConcurrencySafe: () => isParallel,
          execute: async ({ text: value, ms = 0 }, exec) => {
            appendFileSync(file, `${exec.callId}\n`)
            dieAt('after-body')
            if (ms > 0) await wait(ms)
            return value
          }
        })
      )
    tool('note', true)
    tool('note_alone', false)
    tool('note_asked', true)
    tools.addHook('preExecute', async (exec, next) => (exec.name === 'note_asked' ? ask('a person decides') : next()))
    tools.addHook('execute', async (_exec, next) => {
      dieAt('before-dispatch')
      return next()
    })
  })
