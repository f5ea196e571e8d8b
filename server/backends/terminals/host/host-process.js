import { Socket } from 'node:net'
import { killEverything } from './end-processes.js'
import { FrameReader, frameOf } from './frames.js'
import { HostedTerminal } from './hosted-terminal.js'

/**
 * The process that holds all terminals: to start a PTY blocks for some 12 ms, and output comes by the gigabyte; neither may touch
 * the server's main loop. It lives and dies with the server, whose end of the pipe closes however the server ends.
 */

/** @import { FromHost, HostCalls, HostMethod, ToHost } from '../messages.ts' */

/** Live output waits for nobody. */
const MAX_UNSENT_BYTES = 1024 * 1024

/** @type {Map<string, HostedTerminal>} */
const terminals = new Map()
// Writing to process.stdout would block while the server is busy.
const out = new Socket({ fd: 1, readable: false, writable: true })
out.on('error', leave)

/** @param {FromHost} message */
function post(message) {
  if (message.type === 'output' && out.writableLength > MAX_UNSENT_BYTES) return
  out.write(frameOf(message))
}

/** @param {string} id */
function terminal(id) {
  const found = terminals.get(id)
  if (found === undefined) throw new Error('there is no such terminal')
  return found
}

/** @type {{ [M in HostMethod]: (args: HostCalls[M]['args']) => HostCalls[M]['answer'] | Promise<HostCalls[M]['answer']> }} */
const methods = {
  open: async (spec) => {
    const opened = new HostedTerminal(spec, post)
    terminals.set(spec.id, opened)
    return { pid: opened.pid, motd: await opened.ready() }
  },
  send: ({ id, text }) => terminal(id).send(text),
  wait: ({ id }) => terminal(id).sent(),
  drain: async ({ id }) => (await terminal(id).drained(), null),
  cancel: ({ id }) => (terminal(id).cancel(), null),
  read: ({ id, offset, count }) => terminal(id).page(offset, count),
  output: ({ id, after, maxBytes, end }) => terminal(id).output(after, maxBytes, end),
  input: ({ id, text }) => (terminal(id).input(text), null),
  signal: ({ id, signal }) => ({ group: terminal(id).signal(signal) }),
  close: async ({ id }) => (await terminals.get(id)?.close(), null),
  forget: ({ id }) => (terminals.delete(id), null),
  ping: () => null
}

/** @param {ToHost} message */
async function answer({ request, method, args }) {
  try {
    post({ type: 'answer', request, value: await methods[method](/** @type {never} */ (args)) })
  } catch (error) {
    const { message, code } = /** @type {NodeJS.ErrnoException} */ (error)
    post({ type: 'error', request, message, ...(typeof code === 'string' ? { code } : {}) })
  }
}

function leave() {
  killEverything()
  process.exit()
}

const reader = new FrameReader()
process.stdin.on('data', (chunk) => {
  for (const message of reader.read(chunk)) void answer(/** @type {ToHost} */ (message))
})
process.stdin.once('end', leave)
process.stdin.once('error', leave)
for (const signal of /** @type {const} */ (['SIGTERM', 'SIGINT', 'SIGHUP'])) process.once(signal, leave)
process.once('uncaughtException', (error) => {
  process.stderr.write(`${error.stack}\n`, leave)
})
