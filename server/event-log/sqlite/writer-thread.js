import { parentPort, workerData } from 'node:worker_threads'
import { statSync } from 'node:fs'
import { openBallast } from './ballast.js'
import { journalSizeLimit } from './connection.js'
import { failpoint } from './failpoint.js'
import { logFiles } from './files.js'
import { holdLock } from './lock.js'
import { openMark } from './mark.js'
import { LogOpenError } from './open-error.js'
import { openFailure, openStore, prepareDirectory } from './store.js'

// The journal is moved into the database from this many frames (4 KiB each) on.
const checkpointFrames = 1000
const markMs = 1000

/** @typedef {import('./protocol.ts').FromWriter} FromWriter */
/** @typedef {import('./protocol.ts').ToWriter} ToWriter */
/** @typedef {import('./protocol.ts').WireAppend} WireAppend */
/** @typedef {import('./protocol.ts').WireResult} WireResult */
/** @typedef {import('./protocol.ts').Trouble} Trouble */

const options = /** @type {import('./protocol.ts').WriterOptions} */ (workerData)
const port = /** @type {import('node:worker_threads').MessagePort} */ (parentPort)
const files = logFiles(options.directory)
const ballast = openBallast(files.ballast, options.ballastBytes)

/** @type {ReturnType<typeof openMark>} */
let mark
/** @type {import('./store.js').Store} */
let store
/** @type {() => void} */
let releaseLock = () => {}
/** @type {Trouble | undefined} */
let trouble
/** @type {NodeJS.Timeout | undefined} */
let markTimer
/** @type {NodeJS.Timeout | undefined} */
let probeTimer
let markedPosition = -1
let checkpointAt = checkpointFrames
let warnedBytes = journalSizeLimit

/** @param {FromWriter} message */
function tell(message) {
  port.postMessage(message)
}

function start() {
  try {
    prepareDirectory(options.directory)
    releaseLock = holdLock(files.lock)
    mark = openMark(files.mark)
    store = openStore(options, mark.found)
    const { logId, damaged, lostTail } = store
    writeMark()
    tell({ kind: 'ready', logId, head: store.appender.head.position, damaged: [...damaged], lostTail })
    if (!makeBallast()) enterTrouble('disk-full', 'there is no room for the reserve')
  } catch (error) {
    releaseLock()
    const failure = openFailure(error)
    tell({
      kind: 'refused',
      code: failure instanceof LogOpenError ? failure.code : 'INTERNAL',
      message: messageOf(failure)
    })
    port.close()
  }
}

/**
 * One transaction for the whole batch. Closing appends alone may use the reserve of a full disk.
 * @param {WireAppend[]} appends
 */
function batch(appends) {
  /** @type {WireResult[]} */
  const results = appends.map(() => ({
    reason: 'unavailable',
    message: `the event log is unavailable (${trouble})`,
    table: ''
  }))
  const closing = appends.flatMap((append, index) => (append.closing ? [index] : []))
  if (trouble === undefined) {
    const failure = tryCommit(appends, [...appends.keys()], results)
    if (failure !== undefined) fail(failure)
    if (failure !== undefined && trouble === 'disk-full') tryCommit(appends, closing, results)
  } else if (trouble === 'disk-full' && closing.length > 0) {
    const failure = tryCommit(appends, closing, results)
    if (failure !== undefined) fail(failure)
  }
  tell({ kind: 'acks', results })
  if (trouble === undefined) afterCommit()
}

/**
 * @param {WireAppend[]} appends
 * @param {number[]} which indices of those to commit
 * @param {WireResult[]} results
 * @returns {unknown} why the batch could not be committed
 */
function tryCommit(appends, which, results) {
  try {
    const chosen = which.flatMap((index) => appends[index] ?? [])
    const committed = store.appender.commit(chosen)
    for (const [nth, index] of which.entries())
      results[index] = committed[nth] ?? /** @type {WireResult} */ (results[index])
    return undefined
  } catch (error) {
    for (const index of which) results[index] = { reason: 'unavailable', message: messageOf(error), table: '' }
    return error
  }
}

/** What a failure of the database means (reliability.md C5, C6). @param {unknown} error */
function fail(error) {
  const { code = '' } = /** @type {{ code?: string }} */ (error)
  const isFull = code === 'SQLITE_FULL' || code === 'ENOSPC' || (code.startsWith('SQLITE_IOERR') && !makeBallast())
  if (isFull) {
    ballast.release()
    return enterTrouble('disk-full', messageOf(error))
  }
  if (/^SQLITE_(BUSY|LOCKED)/.test(code)) return enterTrouble('busy', messageOf(error))
  enterTrouble('io', messageOf(error))
}

/** @param {Trouble} which @param {string} message */
function enterTrouble(which, message) {
  trouble = which
  tell({ kind: 'state', state: 'unavailable', trouble, message })
  // After a failed fsync the log is closed, verified and opened again, once no reader holds it.
  if (which === 'io') tell({ kind: 'reopen?' })
  else scheduleProbe()
}

function scheduleProbe() {
  probeTimer ??= setTimeout(() => {
    probeTimer = undefined
    probe()
  }, options.probeMs)
}

/** Opens the log again by itself once its reserve is back and a commit succeeds. */
function probe() {
  if (trouble === undefined || trouble === 'io') return
  try {
    if (makeBallast()) {
      store.appender.touch()
      trouble = undefined
      return tell({ kind: 'state', state: 'open' })
    }
  } catch (error) {
    if (/** @type {{ code?: string }} */ (error).code?.startsWith('SQLITE_IOERR')) return fail(error)
  }
  scheduleProbe()
}

function makeBallast() {
  try {
    return ballast.restore()
  } catch {
    return false
  }
}

function reopen() {
  const { damaged, appender } = store
  try {
    store.db.close()
    mark.close()
    mark = openMark(files.mark)
    store = openStore(options, mark.found)
    for (const session of damaged) store.damaged.add(session)
    if (store.appender.head.position < appender.head.position || store.lostTail)
      throw new Error('acknowledged events are gone')
    store.db.pragma('wal_checkpoint(TRUNCATE)')
    trouble = undefined
    tell({ kind: 'state', state: 'open' })
  } catch (error) {
    tell({ kind: 'fatal', message: messageOf(openFailure(error)) })
  }
}

function afterCommit() {
  markTimer ??= setTimeout(tick, markMs)
  try {
    const { log } = checkpoint('NOOP')
    if (log < checkpointAt) return
    failpoint('before-checkpoint')
    const { checkpointed } = checkpoint('PASSIVE')
    failpoint('after-checkpoint')
    // While a reader holds it up, trying after every commit would only cost.
    checkpointAt = checkpointed < log ? log + checkpointFrames : checkpointFrames
    writeMark()
  } catch (error) {
    fail(error)
  }
}

/** Once a second while events come: the mark, and a look at the journal's size (F73). */
function tick() {
  markTimer = undefined
  if (trouble !== undefined) return
  try {
    writeMark()
    const walBytes = statSync(files.wal, { throwIfNoEntry: false })?.size ?? 0
    if (walBytes <= warnedBytes) return
    const { busy } = checkpoint('TRUNCATE')
    warnedBytes = busy === 0 ? journalSizeLimit : walBytes * 2
    if (busy !== 0)
      tell({ kind: 'warning', message: 'a reader keeps the journal from shrinking', details: { walBytes } })
  } catch (error) {
    fail(error)
  }
}

/** @param {'NOOP' | 'PASSIVE' | 'TRUNCATE'} mode */
function checkpoint(mode) {
  const [row] = /** @type {{ busy: number, log: number, checkpointed: number }[]} */ (
    store.db.pragma(`wal_checkpoint(${mode})`)
  )
  return row ?? { busy: 0, log: 0, checkpointed: 0 }
}

function writeMark() {
  const { position, hash } = store.appender.head
  if (position < 0 || position === markedPosition) return
  mark.write({ logId: store.logId, position, hash: hash.toString('hex') })
  markedPosition = position
}

/** @param {number} id @param {() => unknown} work that writes */
async function answer(id, work) {
  if (trouble !== undefined) return tell({ kind: 'done', id, error: `the event log is unavailable (${trouble})` })
  try {
    tell({ kind: 'done', id, value: await work() })
    afterCommit()
  } catch (error) {
    tell({ kind: 'done', id, error: messageOf(error) })
    if (String(/** @type {{ code?: string }} */ (error).code).startsWith('SQLITE_') && trouble === undefined)
      fail(error)
  }
}

function close() {
  clearTimeout(markTimer)
  clearTimeout(probeTimer)
  try {
    writeMark()
    store.db.pragma('wal_checkpoint(TRUNCATE)')
  } catch (error) {
    tell({ kind: 'warning', message: `the last checkpoint failed: ${messageOf(error)}`, details: {} })
  }
  store.db.close()
  mark.close()
  releaseLock()
  tell({ kind: 'closed' })
  port.close()
}

/** @param {unknown} error */
function messageOf(error) {
  return error instanceof Error ? error.message : String(error)
}

port.on('message', (/** @type {ToWriter} */ message) => {
  switch (message.kind) {
    case 'batch':
      return batch(message.appends)
    case 'reopen':
      return reopen()
    case 'damaged':
      return void store.damaged.add(message.session)
    case 'prune':
      return void answer(message.id, () => store.pruner.prune(message.session, message.beforeSeq))
    case 'retain':
      return void answer(message.id, () => store.pruner.retain(message.step))
    case 'close':
      return close()
  }
})

start()
