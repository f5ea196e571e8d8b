import { createHash } from 'node:crypto'
import { transportName } from '../../tools/reserved-names.ts'
import type { Operation } from './operations.ts'

const maxLength = 64
const hashLength = 8

/**
 * A name for each operation: its `operationId`, or its method and path, in the letters that names may have. What is too long is cut, and
 * whatever is not the operation's alone ends in a hash of its method and path: for each of those that would be called the same,
 * so that no name depends on the order of the document.
 */
export function toolNames(operations: readonly Operation[], prefix: string): Map<Operation, string> {
  const wanted = new Map(operations.map((operation) => [operation, wantedName(operation, prefix)]))
  const counts = new Map<string, number>()
  // In another case they would be hard to tell apart, and some models' formats do not.
  for (const name of wanted.values()) counts.set(name.toLowerCase(), (counts.get(name.toLowerCase()) ?? 0) + 1)
  const names = new Map<Operation, string>()
  for (const [operation, name] of wanted) {
    const isOwn = counts.get(name.toLowerCase()) === 1 && name.length <= maxLength && name !== transportName
    names.set(operation, isOwn ? name : withHash(name, operation.label))
  }
  return names
}

function wantedName({ id, label }: Operation, prefix: string): string {
  const text = (id ?? '') === '' ? label.replace(/^[A-Z]+/, (method) => method.toLowerCase()) : (id as string)
  const name = text
    .slice(0, 500)
    .replaceAll(/[^A-Za-z0-9_-]+/g, '_')
    .replaceAll(/^_+|_+$/g, '')
  return `${prefix}${name === '' ? 'operation' : name}`
}

function withHash(name: string, label: string): string {
  const hash = createHash('sha256').update(label).digest('hex').slice(0, hashLength)
  return `${name.slice(0, maxLength - hashLength - 1)}_${hash}`
}
