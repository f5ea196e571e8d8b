/** The thread that compiles and runs schemas from outside (ajv-validator.ts); it is killed when one takes too long. */
import { parentPort } from 'node:worker_threads'
import { SchemaJudge } from './ajv-judge.js'

/** @import { Request } from './ajv-job.ts' */

const port = /** @type {import('node:worker_threads').MessagePort} */ (parentPort)
const judge = new SchemaJudge()
port.on('message', (/** @type {Request} */ request) => port.postMessage(judge.answer(request)))
port.postMessage({ type: 'ready' })
