import { createHash } from 'node:crypto'
import { closeSync, fsyncSync, openSync, readFileSync, writeSync } from 'node:fs'
import { failpoint } from './failpoint.js'

// Two slots written in turn, each within one disk sector: a torn write leaves the other.
const slotBytes = 512

/** @typedef {{ logId: string, position: number, hash: string }} Mark the last event's position and hash (hex) */

/**
 * The high-water mark: how far the log had got, in a small file synced apart from it. A lost tail is a valid log in itself,
 * so only this tells (reliability.md §0.4).
 * @param {string} file
 */
export function openMark(file) {
  const last = readSlots(file)
  let turn = last === undefined ? 0 : last.turn + 1
  let handle = -1
  return {
    /** @type {Mark | undefined} */
    found: last?.mark,
    /** @param {Mark} mark */
    write(mark) {
      if (handle < 0) handle = openSync(file, last === undefined ? 'w+' : 'r+')
      const body = JSON.stringify({ turn, mark })
      const line = `${sum(body)} ${body}`
      if (line.length >= slotBytes) throw new RangeError('mark too long')
      writeSync(handle, line.padEnd(slotBytes - 1) + '\n', (turn % 2) * slotBytes)
      failpoint('mid-mark')
      fsyncSync(handle)
      turn += 1
    },
    close() {
      if (handle >= 0) closeSync(handle)
      handle = -1
    }
  }
}

/**
 * @param {string} file
 * @returns {{ turn: number, mark: Mark } | undefined}
 */
function readSlots(file) {
  let text
  try {
    text = readFileSync(file, 'latin1')
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code === 'ENOENT') return undefined
    throw error
  }
  const slots = [text.slice(0, slotBytes), text.slice(slotBytes, 2 * slotBytes)].flatMap((slot) => {
    const line = slot.trimEnd()
    const body = line.slice(65)
    if (line.slice(0, 64) !== sum(body)) return []
    return [/** @type {{ turn: number, mark: Mark }} */ (JSON.parse(body))]
  })
  return slots.sort((left, right) => right.turn - left.turn)[0]
}

/** @param {string} body */
function sum(body) {
  return createHash('sha256').update(body).digest('hex')
}
