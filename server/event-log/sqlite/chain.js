import { hash } from 'node:crypto'

/** What the first event of a session follows. */
export const genesis = Buffer.alloc(32)

/**
 * @typedef {object} ChainedEvent the columns that the hash covers, and the plain text of `data`
 * @property {number} position
 * @property {string} session
 * @property {number} seq
 * @property {string} type
 * @property {number} time
 * @property {string | null} call_id
 * @property {string | null} surface_op
 * @property {string | null} sources
 * @property {string} text
 */

/**
 * The link of one event: SHA-256 of the previous hash and the canonical event. SQLite notices neither a flipped bit in a row
 * nor one in its journal (reliability.md §0.4); this does.
 * @param {Uint8Array} previous
 * @param {ChainedEvent} event
 * @returns {Buffer}
 */
export function chainHash(previous, event) {
  const { position, session, seq, type, time, call_id: callId, surface_op: surfaceOp, sources } = event
  const envelope = JSON.stringify([position, session, seq, type, time, callId, surfaceOp, sources])
  const text = `${envelope}\n${event.text}`
  const link = Buffer.allocUnsafe(previous.length + Buffer.byteLength(text))
  link.set(previous)
  link.write(text, previous.length)
  // In one call, and with the digest as text: to make a hash object, and a buffer outside of the heap, took twice the time.
  return Buffer.from(hash('sha256', link, 'binary'), 'binary')
}
