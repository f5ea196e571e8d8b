import { readdirSync, readFileSync } from 'node:fs'

const O_CLOEXEC = 0o2000000

/**
 * The descriptors above 2 that a program started from this process would get: Node closes its own on exec, and of what it was started
 * with itself those that stand close together; what whoever started the server had open beyond these is passed on and on
 * (reliability.md §1.13), and so is the other end of each terminal that node-pty opened.
 * @returns {number[]}
 */
export function inheritableDescriptors() {
  return readdirSync('/proc/self/fd')
    .map(Number)
    .filter((descriptor) => descriptor > 2 && isInheritable(descriptor))
}

/** @param {number} descriptor */
function isInheritable(descriptor) {
  try {
    const [, flags = ''] = /^flags:\s+([0-7]+)/m.exec(readFileSync(`/proc/self/fdinfo/${descriptor}`, 'latin1')) ?? []
    return flags !== '' && (Number.parseInt(flags, 8) & O_CLOEXEC) === 0
  } catch {
    // The one that the list itself was read with is gone.
    return false
  }
}
