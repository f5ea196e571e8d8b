import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { TheError, apply, asText, indexInText, inspectValue, isNativeError, sliceText } from './intrinsics.js'

/** The name under which V8 reports places in the program's text. */
export const programName = 'program'
/** Lines that the compiled function has before the first line of the program: its head, and the directive. */
export const linesBefore = 3

const maxFrames = 10
const maxCauses = 3
const maxStack = 65_536
const unshowable = '(a value that cannot be shown)'

const frameStart = '\n    at '
const errorText = Error.prototype.toString

const folder = dirname(fileURLToPath(import.meta.url))
const hasInstance = Function.prototype[Symbol.hasInstance]

/**
 * What is told of a thrown value: `Name: message`, the places in the program, and up to three causes (code-mode.md §7.4, §12). It never
 * throws, whatever the value's getters do. Texts are not read further than `room`, since no more of them can be told.
 * @param {unknown} thrown @param {number} room in bytes @returns {string}
 */
export function reportFailure(thrown, room) {
  if (!isError(thrown)) return withoutPaths(show(thrown, room))
  let text = headOf(thrown, room) + framesOf(thrown)
  let cause = member(thrown, 'cause')
  for (let count = 0; count < maxCauses && cause !== undefined && cause !== null; count += 1) {
    text += `\ncaused by: ${isError(cause) ? headOf(cause, room) : show(cause, room)}`
    cause = isError(cause) ? member(cause, 'cause') : undefined
  }
  return withoutPaths(text)
}

/** @param {unknown} value @returns {value is object} */
function isError(value) {
  if (typeof value !== 'object' || value === null) return false
  try {
    // What is no native error may still inherit from one, as DOMException does.
    return isNativeError(value) || apply(hasInstance, TheError, [value])
  } catch {
    return false
  }
}

/** @param {object} error @param {number} room */
function headOf(error, room) {
  const name = textMember(error, 'name', room) || 'Error'
  const message = textMember(error, 'message', room)
  return message === '' ? name : `${name}: ${message}`
}

/** @param {object} error @param {string} key @param {number} room */
function textMember(error, key, room) {
  const value = member(error, key)
  return typeof value === 'string' ? sliceText(value, 0, room + 1) : ''
}

/** @param {object} holder @param {string} key @returns {unknown} */
function member(holder, key) {
  try {
    return /** @type {Record<string, unknown>} */ (holder)[key]
  } catch {
    return undefined
  }
}

/** @param {unknown} value @param {number} room */
function show(value, room) {
  if (typeof value === 'string') return sliceText(value, 0, room + 1)
  try {
    return typeof value === 'symbol' ? asText(value) : inspectValue(value)
  } catch {
    return unshowable
  }
}

/**
 * Writes the stacks of a world's errors: only places in the program, with lines as in the submitted text. It is V8's hook for that, so
 * what a program prints is as clean as what is reported. A program may replace it, to its own confusion.
 * @param {unknown} error @param {NodeJS.CallSite[]} sites
 */
export function writeStack(error, sites) {
  let text = ''
  try {
    text = apply(errorText, error, [])
  } catch {
    text = 'Error'
  }
  let count = 0
  for (let index = 0; index < sites.length && count < maxFrames; index += 1) {
    const frame = frameOf(/** @type {NodeJS.CallSite} */ (sites[index]))
    if (frame === '') continue
    text += `\n    at ${frame}`
    count += 1
  }
  return text
}

/** @param {NodeJS.CallSite} site */
function frameOf(site) {
  const line = site.getLineNumber()
  if (site.getScriptNameOrSourceURL() !== programName || line === null || line <= linesBefore) return ''
  const place = `${programName}:${line - linesBefore}:${site.getColumnNumber()}`
  const name = site.getFunctionName()
  return name === null || name === '' || name === 'eval' ? place : `${name} (${place})`
}

/** The frames of a stack that `writeStack` wrote, if nothing else has. @param {object} error */
function framesOf(error) {
  const stack = textMember(error, 'stack', maxStack)
  let frames = ''
  let count = 0
  for (let start = indexInText(stack, frameStart); start !== -1 && count < maxFrames; count += 1) {
    const next = indexInText(stack, '\n', start + 1)
    const line = sliceText(stack, start, next === -1 ? stack.length : next)
    if (indexInText(line, `${programName}:`) !== -1) frames += line
    start = indexInText(stack, frameStart, start + 1)
  }
  return frames
}

/** Messages of Node name this folder, as that of the importing module; a program has no business with it. @param {string} text */
function withoutPaths(text) {
  let clean = text
  for (let at = indexInText(clean, folder); at !== -1; at = indexInText(clean, folder, at + programName.length)) {
    let end = at + folder.length
    if (sliceText(clean, end, end + ownFile.length) === ownFile) end += ownFile.length
    if (sliceText(clean, at - filePrefix.length, at) === filePrefix) at -= filePrefix.length
    clean = sliceText(clean, 0, at) + programName + sliceText(clean, end)
  }
  return clean
}

const ownFile = '/world-thread.js'
const filePrefix = 'file://'
