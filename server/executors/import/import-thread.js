/** The thread that reads one document (import-openapi.ts): it is ended with it, or when that takes too long. */
import { parentPort } from 'node:worker_threads'
import { DocumentReader } from './document-reader.js'

/** @import { ImportRequest } from './import-job.ts' */

const port = /** @type {import('node:worker_threads').MessagePort} */ (parentPort)
const reader = new DocumentReader()

port.on('message', (/** @type {ImportRequest} */ request) => {
  void reader.answer(request).then((answer) => port.postMessage(answer))
})
port.postMessage({ type: 'ready' })
