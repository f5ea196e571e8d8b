import { createHash } from 'node:crypto'

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
  return createHash('sha256').update(previous).update(envelope).update('\n').update(event.text).digest()
}
