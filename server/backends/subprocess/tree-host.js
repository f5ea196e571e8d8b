import { closeSync, rmSync } from 'node:fs'
import { inheritableDescriptors } from '../../processes/inheritable-descriptors.js'
import { killUntilGone } from './kill-until-gone.js'
import { makeOutputFifos } from './output-fifo.js'
import { ProcessTree } from './process-tree.js'
import { TreeWatch } from './tree-watch.js'

/**
 * The process that starts, reads and ends all others. A fork costs what the forking process is large, and holds its threads up; output comes
 * by the gigabyte: neither may touch the server. When the server is gone, in whatever way, so are they.
 */

/** @import { FromHost, ToHost } from './messages.ts' */

for (const descriptor of inheritableDescriptors()) closeSync(descriptor)

const [, , spillDirectory = ''] = process.argv
/** @type {Map<number, ProcessTree>} */
const trees = new Map()
const watch = new TreeWatch()

/** @param {FromHost} message */
function post(message) {
  if (message.type === 'closed' || message.type === 'failed') trees.delete(message.id)
  // Without a callback the error of a server that is gone would be thrown, before its processes are ended.
  process.send?.(message, undefined, undefined, () => {})
}

/** @param {Extract<ToHost, { type: 'spawn' }>} message */
function spawn({ spec }) {
  const tree = new ProcessTree(spec, { post, table: watch.table, watch: watch.add })
  trees.set(spec.id, tree)
  try {
    tree.start()
  } catch (error) {
    // What cannot be asked of the system, such as a NUL in an argument.
    post({ type: 'failed', id: spec.id, message: error instanceof Error ? error.message : String(error) })
  }
}

process.on('message', (/** @type {ToHost} */ message) => {
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
    case 'ping':
      return post({ type: 'pong' })
  }
})

async function end() {
  await killUntilGone(() => {
    const table = watch.table()
    return [...trees.values()].reduce((count, tree) => count + tree.signal('SIGKILL', table), 0)
  })
  rmSync(spillDirectory, { recursive: true, force: true })
  process.exit()
}

process.once('disconnect', () => void end())

// Nobody waits for them yet.
setImmediate(makeOutputFifos)

// Meant for the server, which may take its time to end: a service's stop is told to all its processes.
for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP'])) process.on(signal, () => {})
