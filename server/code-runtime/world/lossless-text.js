import {
  SafeSet,
  apply,
  arrayPrototype,
  getOwnPropertyDescriptor,
  getPrototypeOf,
  is,
  isArray,
  isFiniteNumber,
  objectKeys,
  objectPrototype,
  ownKeys,
  sliceText,
  sourceOf,
  stringifyJson
} from './intrinsics.js'

/**
 * The path and the reason why a value is not lossless JSON; thrown, and no Error, so that nothing of it can be patched.
 * @typedef {{ readonly lossy: string }} Lossy
 */

/** Thrown for a text that nobody would take; making all of it could cost the world its memory. */
export const tooLong = Symbol('too long')

/**
 * One container being written.
 * @typedef {object} Frame
 * @property {Record<PropertyKey, unknown>} source
 * @property {readonly string[] | undefined} keys undefined for an array
 * @property {number} length
 * @property {Frame | undefined} parent
 * @property {number} next
 */

/**
 * JSON text of a value that is lossless JSON (code-mode.md §9), checked and written in one pass without recursion: a getter is read
 * once, and neither a `toJSON` nor the depth matters. Throws a `Lossy`, and `tooLong` as soon as the text has more than `limit` units.
 * @param {unknown} value @param {number} limit @returns {string}
 */
export function losslessText(value, limit) {
  if (typeof value === 'string' && value.length > limit) throw tooLong
  if (typeof value !== 'object' || value === null) return scalarText(value, undefined)
  const ancestors = new SafeSet()
  /** @type {Frame | undefined} */
  let frame = open(value, undefined)
  ancestors.add(value)
  let text = frame.keys === undefined ? '[' : '{'
  while (frame !== undefined) {
    if (frame.next === frame.length) {
      text += frame.keys === undefined ? ']' : '}'
      ancestors.delete(frame.source)
      frame = frame.parent
      continue
    }
    if (frame.next > 0) text += ','
    /** @type {string | number} */
    const key = frame.keys === undefined ? frame.next : /** @type {string} */ (frame.keys[frame.next])
    frame.next += 1
    if (frame.keys !== undefined) text += `${stringifyJson(key)}:`
    const item = read(frame, key)
    if (text.length > limit || (typeof item === 'string' && item.length > limit)) throw tooLong
    if (typeof item !== 'object' || item === null) {
      text += scalarText(item, frame)
      continue
    }
    if (ancestors.has(item)) throw lossy(frame, 'a circular reference is not JSON')
    /** @type {Frame} */
    const child = open(item, frame)
    ancestors.add(item)
    frame = child
    text += frame.keys === undefined ? '[' : '{'
  }
  return text
}

/** @param {Frame} frame @param {string | number} key */
function read(frame, key) {
  try {
    return frame.source[key]
  } catch {
    throw lossy(frame, 'a getter that throws is not JSON')
  }
}

/** @param {unknown} value @param {Frame | undefined} frame */
function scalarText(value, frame) {
  if (typeof value === 'string') return stringifyJson(value)
  if (value === null || typeof value === 'boolean') return `${value}`
  if (value === undefined) throw lossy(frame, 'undefined is not JSON')
  if (typeof value !== 'number') throw lossy(frame, `a ${typeof value} is not JSON`)
  if (isFiniteNumber(value) && !is(value, -0)) return `${value}`
  throw lossy(frame, `${is(value, -0) ? '-0' : `${value}`} is not JSON`)
}

/** @param {object} source @param {Frame | undefined} parent @returns {Frame} */
function open(source, parent) {
  try {
    return isArray(source) ? openArray(source, parent) : openObject(source, parent)
  } catch (error) {
    if (isLossy(error)) throw error
    throw lossy(parent, 'a proxy that throws is not JSON')
  }
}

/** @param {object} source @param {Frame | undefined} parent @returns {Frame} */
function openArray(source, parent) {
  if (!hasPlainPrototype(source, 'Array')) throw lossy(parent, `${classOf(source, 'array')} is not JSON`)
  const { length } = /** @type {unknown[]} */ (source)
  const all = ownKeys(source)
  if (all.length !== length + 1 || (length > 0 && all[length - 1] !== `${length - 1}`)) {
    throw lossy(parent, 'an array with holes or further properties is not JSON')
  }
  return frameOf(source, undefined, length, parent)
}

/** @param {object} source @param {Frame | undefined} parent @returns {Frame} */
function openObject(source, parent) {
  if (!hasPlainPrototype(source, 'Object')) throw lossy(parent, `${classOf(source, 'object')} is not JSON`)
  const keys = objectKeys(source)
  if (ownKeys(source).length !== keys.length) {
    throw lossy(parent, 'an object with symbol keys or non-enumerable properties is not JSON')
  }
  return frameOf(source, keys, keys.length, parent)
}

/** @param {object} source @param {readonly string[] | undefined} keys @param {number} length @param {Frame | undefined} parent @returns {Frame} */
function frameOf(source, keys, length, parent) {
  return { source: /** @type {Record<PropertyKey, unknown>} */ (source), keys, length, parent, next: 0 }
}

/** @param {object} value @param {'Array' | 'Object'} name */
function hasPlainPrototype(value, name) {
  const prototype = getPrototypeOf(value)
  if (prototype === (name === 'Array' ? arrayPrototype : objectPrototype)) return true
  if (prototype === null) return name === 'Object'
  // Of another realm: the text of its constructor cannot be forged, since `[native code]` does not parse.
  const constructor = getOwnPropertyDescriptor(prototype, 'constructor')?.value
  return (
    typeof constructor === 'function' &&
    sourceOf(constructor) === `function ${name}() { [native code] }` &&
    getOwnPropertyDescriptor(constructor, 'prototype')?.value === prototype
  )
}

/** The class's name from descriptors alone: no getter of the rejected value runs. @param {object} value @param {string} kind */
function classOf(value, kind) {
  const prototype = getPrototypeOf(value)
  const constructor = prototype === null ? undefined : getOwnPropertyDescriptor(prototype, 'constructor')?.value
  const name = typeof constructor === 'function' ? getOwnPropertyDescriptor(constructor, 'name')?.value : undefined
  if (typeof name !== 'string' || name === '' || name === 'Object' || name === 'Array')
    return `an ${kind} that is not plain`
  return sliceText(name, 0, 80)
}

/** @param {Frame | undefined} frame @param {string} reason @returns {Lossy} */
function lossy(frame, reason) {
  let path = ''
  let steps = 0
  for (let at = frame; at !== undefined && steps < 40; at = at.parent, steps += 1) path = step(at) + path
  return { lossy: `not lossless JSON: $${steps === 40 ? '…' : ''}${path}: ${reason}` }
}

/** @param {Frame} frame */
function step(frame) {
  const index = frame.next - 1
  if (frame.keys === undefined) return `[${index}]`
  const key = /** @type {string} */ (frame.keys[index])
  return isPlainName(key) ? `.${key}` : `[${stringifyJson(sliceText(key, 0, 80))}]`
}

const plainNames = /^[A-Za-z_$][\w$-]{0,79}$/
const execute = plainNames.exec
/** @param {string} name */
const isPlainName = (name) => apply(execute, plainNames, [name]) !== null

/** @param {unknown} error @returns {error is Lossy} */
export function isLossy(error) {
  return typeof error === 'object' && error !== null && getOwnPropertyDescriptor(error, 'lossy') !== undefined
}
