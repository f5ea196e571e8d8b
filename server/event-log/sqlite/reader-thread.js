import { parentPort, workerData } from 'node:worker_threads'
import { eventLine, headerLine } from '../export-lines.js'
import { compress } from '../zstd.js'
import { openForReading } from './connection.js'
import { logFiles } from './files.js'
import { BlobError } from '../blobs.js'
import { DamagedSession, openPageReader } from './page-reader.js'
import { openSessionReader } from './session-reader.js'
import { openSideTables, RefusedWrite } from './side-tables.js'

/** @typedef {import('./protocol.ts').ReadRequest} ReadRequest */

const { directory, tables } = /** @type {import('./protocol.ts').WriterOptions} */ (workerData)
const port = /** @type {import('node:worker_threads').MessagePort} */ (parentPort)

/** @type {ReturnType<typeof open> | undefined} */
let connection

function open() {
  const db = openForReading(logFiles(directory).database)
  return { db, readPage: openPageReader(db), sideTables: openSideTables(db, tables), sessions: openSessionReader(db) }
}

/** The connection is opened when first needed, and again after it was suspended. */
function opened() {
  connection ??= open()
  return connection
}

/** @param {ReadRequest} request */
function serve(request) {
  switch (request.kind) {
    case 'page':
      return opened().readPage(request.query)
    case 'rows':
      return opened().sideTables.rows(request.table, request.where, request.limit)
    case 'sessions':
      return opened().sessions.page(request.query)
    case 'unfinished':
      return opened().sessions.unfinished(request.after, request.limit)
    case 'last-seq':
      return opened().sessions.lastSeq(request.session, request.type)
    case 'export':
      return exportChunk(request.session, request.after)
    case 'suspend':
      connection?.db.close()
      connection = undefined
      return undefined
  }
}

/**
 * The next part of an export, compressed; the header line comes with the first one (`after` -1).
 * @param {string} session
 * @param {number} after
 */
function exportChunk(session, after) {
  const { readPage, sideTables } = opened()
  const [row] = after < 0 ? sideTables.rows('sessions', { id: session }, 1) : []
  if (after < 0 && row === undefined) return { frames: undefined }
  const { events, next } = readPage({ session, after, limit: 500, maxBytes: 4 * 1024 * 1024 })
  const lines = events.map(({ type, seq, time, surface_op: surfaceOp, sources, text }) =>
    eventLine({ type, seq, time, surfaceOp, sources, text })
  )
  const text = (row === undefined ? '' : headerLine(row)) + lines.join('')
  return { frames: text === '' ? new Uint8Array() : compress(Buffer.from(text)), next }
}

/** @param {unknown} error */
function reasonOf(error) {
  if (error instanceof DamagedSession || error instanceof BlobError) return 'damaged'
  return error instanceof RefusedWrite ? 'invalid' : 'unavailable'
}

port.on('message', ({ id, request }) => {
  try {
    port.postMessage({ id, value: serve(request) })
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    const session = error instanceof DamagedSession ? error.session : undefined
    port.postMessage({ id, error: { reason: reasonOf(error), session, message } })
  }
})
port.on('close', () => connection?.db.close())
