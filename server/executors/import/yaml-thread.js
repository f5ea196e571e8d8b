/** The thread that reads one YAML text (document.ts): it is ended when that takes too long. */
import { parentPort, workerData } from 'node:worker_threads'
import { parse } from 'yaml'

/** @import { YamlAnswer } from './document.ts' */

const port = /** @type {import('node:worker_threads').MessagePort} */ (parentPort)

/** @returns {YamlAnswer} */
function read() {
  try {
    // Aliases that multiply are what makes a small text large.
    const value = parse(/** @type {string} */ (workerData), { maxAliasCount: 100, logLevel: 'silent' })
    return { json: JSON.stringify(value) ?? 'null' }
  } catch (error) {
    // Only the first line: the others quote the text.
    return { failure: /** @type {Error} */ (error).message.split('\n', 1)[0]?.slice(0, 300) ?? '' }
  }
}

port.postMessage(read())
