// Tools that do no harm whatever they are asked, and a guard that lets no other run: what a fuzzer writes must never be a command.
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

setFlagsFromString('--expose-gc')
const collect = /** @type {() => void} */ (runInNewContext('gc'))

/** @type {string[]} What the process complains of itself, as of a timer that is longer than there are. */
const warnings = []
process.on('warning', ({ name, message }) => warnings.push(`${name}: ${message}`))

const harmless = new Set(['fuzz_echo', 'fuzz_asked', 'fuzz_fail', 'fuzz_new', 'fuzz_memory', 'todo_write'])

/** @type {(authoring: import('../../../plugins/engine/operator-plugins.ts').Authoring) => unknown} */
export default ({ definePlugin, ask }) =>
  definePlugin({ name: 'fuzz' }, (tools) => {
    const tool = (/** @type {string} */ name, /** @type {(args: any) => any} */ execute) =>
      tools.register({
        name,
        description: name,
        parameters: { type: 'object' },
        output: { schema: {}, render: () => [] },
        isConcurrencySafe: () => true,
        execute
      })
    tool('fuzz_echo', (args) => args)
    tool('fuzz_asked', (args) => args)
    tool('fuzz_fail', (args) => {
      throw new Error(String(Object.keys(args)))
    })
    tool('fuzz_memory', () => {
      collect()
      const { heapUsed, external } = process.memoryUsage()
      return {
        bytes: heapUsed + external,
        resources: process.getActiveResourcesInfo().length,
        polluted: Object.keys(Object.prototype),
        warnings
      }
    })
    tools.addHook('preExecute', async (exec, next) => (exec.name === 'fuzz_asked' ? ask('a person decides') : next()))
    tools.guard(({ name }) => (harmless.has(name) ? undefined : 'not while fuzzing'))
  })
