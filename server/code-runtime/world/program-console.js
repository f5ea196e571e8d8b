import { apply, createObject, decodeBytes, define, fixed, formatLog, isBytes, visible } from './intrinsics.js'

/** @import { Outlet } from './outlet.js' */

const { nextTick } = process
const methods = ['log', 'info', 'warn', 'error', 'debug']

/** The five methods that a program has, each call one log entry (code-mode.md §6). @param {Outlet} outlet */
export function createConsole(outlet) {
  const console = createObject(null)
  for (const name of methods) {
    const method = (/** @type {unknown[]} */ ...values) => outlet.log(apply(formatLog, undefined, values))
    define(method, 'name', { value: name })
    define(console, name, visible(method))
  }
  return console
}

/**
 * Makes each `write` of the standard streams one log entry, in order with the console. What calls the `write` of their class instead
 * is told apart, and still metered as it comes: the stream would hold back a flood until memory ends.
 * @param {Outlet} outlet
 */
export function redirectStreams(outlet) {
  for (const name of /** @type {const} */ (['stdout', 'stderr'])) {
    const stream = process[name]
    define(stream, 'write', fixed(writeTo((text) => outlet.log(text))))
    define(Object.getPrototypeOf(stream), 'write', visible(writeTo((text) => outlet.raw(name, text))))
  }
}

/** @param {(text: string) => void} emit */
function writeTo(emit) {
  return (/** @type {unknown} */ chunk, /** @type {unknown} */ encoding, /** @type {unknown} */ callback) => {
    if (typeof chunk !== 'string' && !isBytes(chunk)) throw new TypeError('The chunk must be a string or a Uint8Array.')
    emit(typeof chunk === 'string' ? chunk : decodeBytes(chunk))
    const done = typeof encoding === 'function' ? encoding : callback
    if (typeof done === 'function') nextTick(done)
    return true
  }
}
