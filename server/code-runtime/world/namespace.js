import {
  SafeMap,
  TheError,
  ThePromise,
  createObject,
  define,
  fixed,
  hidden,
  indexInText,
  parseJson,
  setPrototypeOf,
  sliceText,
  visible
} from './intrinsics.js'
import { isLossy, losslessText, tooLong } from './lossless-text.js'

/** @import { BindingShape } from '../bindings.ts' */
/** @import { Outlet } from './outlet.js' */

const { captureStackTrace } = TheError
/** Larger arguments are refused here; the host would cut the world off. */
const maxArgumentUnits = 40 * 1024 * 1024

/**
 * A call that waits for its reply.
 * @typedef {object} PendingCall
 * @property {(value: unknown) => void} resolve
 * @property {(error: unknown) => void} reject
 * @property {(message: string) => unknown} makeError
 */

/** The calls of a program: numbers them, and settles them as replies come. */
export class CallDesk {
  #outlet
  #last = 0
  #pending = /** @type {Map<number, PendingCall>} */ (new SafeMap())

  /** @param {Outlet} outlet */
  constructor(outlet) {
    this.#outlet = outlet
  }

  /**
   * @param {string} header JSON of the namespace and the name, with the comma between them
   * @param {unknown} argument @param {(message: string) => unknown} makeError
   */
  call(header, argument, makeError) {
    return new ThePromise((resolve, reject) => {
      /** @type {string} */
      let text
      try {
        text = losslessText(argument, maxArgumentUnits)
      } catch (error) {
        reject(
          makeError(
            error === tooLong
              ? 'The argument is too large.'
              : `The argument is ${isLossy(error) ? error.lossy : 'not lossless JSON'}`
          )
        )
        return
      }
      this.#last += 1
      this.#pending.set(this.#last, { resolve, reject, makeError })
      this.#outlet.post(`["call",${this.#last},${header}]\n${text}`)
    })
  }

  /** @param {string} frame of type `reply` */
  settle(frame) {
    const end = indexInText(frame, '\n')
    const header = parseJson(end === -1 ? frame : sliceText(frame, 0, end))
    const call = this.#pending.get(header[1])
    if (call === undefined) return
    this.#pending.delete(header[1])
    if (header[2]) call.resolve(parseJson(sliceText(frame, end + 1)))
    else call.reject(call.makeError(header[3]))
  }
}

/**
 * The object of a namespace: no prototype, and each function an own property that cannot be changed, whatever its name
 * (code-mode.md §6).
 * @param {BindingShape} shape @param {CallDesk} desk @param {Function} errorClass
 */
export function createNamespace(shape, desk, errorClass) {
  const namespace = createObject(null)
  const errorPrototype = errorClass.prototype
  for (const name of shape.names) {
    const header = `${JSON.stringify(shape.global)},${JSON.stringify(name)}`
    const call = (/** @type {unknown} */ argument) => {
      const site = { __proto__: null, stack: '' }
      captureStackTrace(site, call)
      return desk.call(header, argument, (message) => callError(message, site, name))
    }
    define(call, 'name', { value: name, configurable: true })
    define(namespace, name, fixed(call))
  }
  return namespace

  // The places are those of the call: where the reply arrives there is nothing of the program on the stack.
  /** @param {string} message @param {{ stack: string }} site @param {string} name */
  function callError(message, site, name) {
    const error = new TheError(message)
    setPrototypeOf(error, errorPrototype)
    define(error, 'stack', hidden(`${shape.errorClass?.name ?? 'Error'}: ${message}${framesAt(site)}`))
    if (shape.errorClass === undefined) return error
    define(error, 'name', visible(shape.errorClass.name))
    define(error, shape.errorClass.memberNameProperty, visible(name))
    return error
  }
}

/** The stack is written when it is read, by what may by then be the program's own. @param {{ stack: string }} site */
function framesAt(site) {
  try {
    const { stack } = site
    const start = indexInText(stack, '\n')
    return start === -1 ? '' : sliceText(stack, start)
  } catch {
    return ''
  }
}

/** The class of a namespace's failed calls, or Error itself. @param {BindingShape} shape @returns {Function} */
export function createErrorClass({ errorClass }) {
  if (errorClass === undefined) return TheError
  const { name } = errorClass
  const made = { [name]: class extends TheError {} }[name]
  return /** @type {Function} */ (made)
}
