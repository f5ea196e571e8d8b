/**
 * Everything of the language that the boundary of a world uses, taken before any program has run: a program may overwrite all of it
 * (code-mode.md §8). The rest of this folder calls nothing else, walks no iterator, and assigns to no index that an object has not.
 */
import { Buffer } from 'node:buffer'
import { formatWithOptions, inspect, types } from 'node:util'
import { MessagePort } from 'node:worker_threads'

/**
 * `f.call` with `f` fixed; a bound function looks nothing up when it is called.
 * @type {<This, Args extends unknown[], Result>(method: (this: This, ...args: Args) => Result) => (self: This, ...args: Args) => Result}
 */
const uncurry = /** @type {never} */ (Function.prototype.bind.bind(Function.prototype.call))

export const { apply, ownKeys, getPrototypeOf, setPrototypeOf, getOwnPropertyDescriptor } = Reflect
export const { isArray } = Array
export const { isFinite: isFiniteNumber, isSafeInteger } = Number
export const { is, keys: objectKeys, create: createObject, freeze } = Object
export const { parse: parseJson, stringify: stringifyJson } = JSON
export const objectPrototype = Object.prototype
export const arrayPrototype = Array.prototype
export const TheError = Error
export const ThePromise = Promise
export const { isNativeError } = types
export const asText = String
export const byteLength = Buffer.byteLength.bind(Buffer)

export const sourceOf = uncurry(Function.prototype.toString)
export const sliceText = uncurry(String.prototype.slice)
export const indexInText = uncurry(String.prototype.indexOf)
export const postMessage = uncurry(
  /** @type {(this: MessagePort, text: string) => void} */ (MessagePort.prototype.postMessage)
)

export const TheArrayBuffer = ArrayBuffer
const TheUint8Array = Uint8Array
export const setBytes = uncurry(Uint8Array.prototype.set)
/** @param {ArrayBuffer} store @param {number} [at] @param {number} [length] */
export const asBytes = (store, at, length) => new TheUint8Array(store, at, length)
export const decodeText = TextDecoder.prototype.decode.bind(new TextDecoder())
const encodeInto = TextEncoder.prototype.encodeInto.bind(new TextEncoder())

/** Bytes of a text, behind room for so many others. @param {string} text @param {number} room */
export function encodeText(text, room) {
  const length = byteLength(text)
  const store = new TheArrayBuffer(room + length)
  encodeInto(text, new TheUint8Array(store, room))
  return { bytes: new TheUint8Array(store), length }
}

/** @type {(bytes: Uint8Array, encoding?: BufferEncoding) => string} */
export const decodeBytes = uncurry(
  /** @this {Uint8Array} @param {BufferEncoding} [encoding] */
  function (encoding) {
    return bytesToText(bytesFrom(this.buffer, this.byteOffset, this.byteLength), encoding)
  }
)
const bytesFrom = /** @type {(buffer: ArrayBufferLike, offset: number, length: number) => Buffer} */ (
  Buffer.from.bind(Buffer)
)
const bytesToText = uncurry(Buffer.prototype.toString)
export const isBytes = types.isUint8Array

/** How logs and thrown values are shown (code-mode.md §6). */
const shown = freeze({ __proto__: null, depth: 4, maxArrayLength: 100, maxStringLength: 10_000 })
export const formatLog = formatWithOptions.bind(undefined, shown)
/** @param {unknown} value */
export const inspectValue = (value) => inspect(value, shown)

/** A property that a setter or a `get` put on `Object.prototype` cannot turn into another. @param {unknown} value */
export const hidden = (value) => ({ __proto__: null, value, writable: true, enumerable: false, configurable: true })
/** @param {unknown} value */
export const visible = (value) => ({ __proto__: null, value, writable: true, enumerable: true, configurable: true })
/** @param {unknown} value */
export const fixed = (value) => ({ __proto__: null, value, writable: false, enumerable: true, configurable: false })
export const define = /** @type {(target: object, key: PropertyKey, descriptor: object) => boolean} */ (
  Reflect.defineProperty
)

/**
 * Gives a collection's class methods of its own: nothing that a program does to `Map` or `Set` reaches it.
 * @template {Function} Class @param {Class} copy a class that extends `base` @param {Function} base @returns {Class}
 */
function detach(copy, base) {
  for (const key of ownKeys(base.prototype)) {
    if (key !== 'constructor')
      define(copy.prototype, key, /** @type {object} */ (getOwnPropertyDescriptor(base.prototype, key)))
  }
  setPrototypeOf(copy.prototype, null)
  freeze(copy.prototype)
  return freeze(copy)
}

// A constructor that is not written out passes its arguments on through the iterator of arrays.
export const SafeMap = detach(
  class extends Map {
    // oxlint-disable-next-line no-useless-constructor -- see above
    constructor() {
      super()
    }
  },
  Map
)
export const SafeSet = detach(
  class extends Set {
    // oxlint-disable-next-line no-useless-constructor -- see above
    constructor() {
      super()
    }
  },
  Set
)
