import { Worker } from 'node:worker_threads'
import type { FromWriter, WriterOptions } from './protocol.ts'

/**
 * Starts a thread of the log. It is plain JS, so it takes no loader along from the command line (half a second with tsx). Its
 * standard output goes nowhere: zstd-codec prints to it, which would corrupt a stdio protocol.
 */
export function startThread(entry: URL, options: WriterOptions): Worker {
  const worker = new Worker(entry, { workerData: options, stdout: true, execArgv: [], name: 'event-log' })
  worker.stdout.resume()
  return worker
}

/** What the writer thread begins with; rejects when it dies before that. */
export function firstMessage(writer: Worker): Promise<FromWriter> {
  return new Promise((resolve, reject) => {
    writer.once('error', reject)
    writer.once('message', (message: FromWriter) => {
      writer.off('error', reject)
      resolve(message)
    })
  })
}
