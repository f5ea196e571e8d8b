import { createHash } from 'node:crypto'
import { transportName } from '../../tools/reserved-names.js'

/** @import { Operation } from './import-job.ts' */

const maxLength = 64
const hashLength = 8

/**
 * A name for each operation: its `operationId`, or its method and path, in the letters that names may have. What is too long is cut, and
 * whatever is not the operation's alone ends in a hash of its method and path: for each of those that would be called the same,
 * so that no name depends on the order of the document.
 * @param {readonly Operation[]} operations @param {string} prefix
 * @returns {Map<Operation, string>}
 */
export function toolNames(operations, prefix) {
  const wanted = new Map(operations.map((operation) => [operation, wantedName(operation, prefix)]))
  /** @type {Map<string, number>} */
  const counts = new Map()
  // In another case they would be hard to tell apart, and some models' formats do not.
  for (const name of wanted.values()) counts.set(name.toLowerCase(), (counts.get(name.toLowerCase()) ?? 0) + 1)
  /** @type {Map<Operation, string>} */
  const names = new Map()
  for (const [operation, name] of wanted) {
    const isOwn = counts.get(name.toLowerCase()) === 1 && name.length <= maxLength && name !== transportName
    names.set(operation, isOwn ? name : withHash(name, operation.label))
  }
  return names
}

/** @param {Operation} operation @param {string} prefix */
function wantedName({ id = '', label }, prefix) {
  const text = id === '' ? label.replace(/^[A-Z]+/, (method) => method.toLowerCase()) : id
  const name = text
    .slice(0, 500)
    .replaceAll(/[^A-Za-z0-9_-]+/g, '_')
    .replaceAll(/^_+|_+$/g, '')
  return `${prefix}${name === '' ? 'operation' : name}`
}

/** @param {string} name @param {string} label */
function withHash(name, label) {
  const hash = createHash('sha256').update(label).digest('hex').slice(0, hashLength)
  return `${name.slice(0, maxLength - hashLength - 1)}_${hash}`
}
