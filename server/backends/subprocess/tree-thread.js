import { workerData } from 'node:worker_threads'
import { ProcessTree } from './process-tree.js'
import { TreeWatch } from './tree-watch.js'
import { endStrays } from './stray-processes.js'
import { sendSignal } from './process-table.js'

/**
 * The thread that starts, reads and ends all processes. `spawn` blocks its thread for about 10 ms in a process of a server's size,
 * and output comes by the gigabyte: neither may touch the main loop.
 */

/** @import { FromThread, ToThread } from './messages.ts' */

/** @type {{ port: import('node:worker_threads').MessagePort, flags: Int32Array<SharedArrayBuffer> }} */
const { port, flags } = workerData
/** flags[0]: the server is exiting. flags[1]: a start is under way, whose process the main thread does not know yet. */
const EXITING = 0
const STARTING = 1

/** @type {Map<number, ProcessTree>} */
const trees = new Map()
const watch = new TreeWatch()

/** @param {FromThread} message @param {ArrayBuffer[]} [transfer] */
function post(message, transfer = []) {
  if (message.type === 'closed' || message.type === 'failed') trees.delete(message.id)
  port.postMessage(message, transfer)
}

/** @param {Extract<ToThread, { type: 'spawn' }>} message */
function spawn({ spec }) {
  Atomics.store(flags, STARTING, 1)
  if (Atomics.load(flags, EXITING) === 0) {
    const tree = new ProcessTree(spec, { post, table: watch.table, watch: watch.add })
    trees.set(spec.id, tree)
    try {
      tree.start()
    } catch (error) {
      // What execa refuses outright, such as a NUL in an argument.
      post({ type: 'failed', id: spec.id, message: error instanceof Error ? error.message : String(error) })
    }
    if (Atomics.load(flags, EXITING) === 1 && tree.identity) sendSignal(-tree.identity.pid, 'SIGKILL')
  }
  Atomics.store(flags, STARTING, 0)
  Atomics.notify(flags, STARTING)
}

port.on('message', (/** @type {ToThread} */ message) => {
  switch (message.type) {
    case 'spawn':
      return spawn(message)
    case 'terminate':
      return trees.get(message.id)?.terminate()
    case 'read': {
      const tail = trees.get(message.id)?.read(message.stream, message.offset)
      return post({ type: 'window', request: message.request, tail })
    }
    case 'stdin': {
      const tree = trees.get(message.id)
      if (tree) return tree.writeStdin(message.data)
      return post({ type: 'stdin-taken', id: message.id, error: 'the process is gone' })
    }
    case 'taken':
      return trees.get(message.id)?.taken(message.stream, message.bytes)
    case 'sweep':
      return void endStrays(message.directory).then((ended) => post({ type: 'swept', request: message.request, ended }))
  }
})
