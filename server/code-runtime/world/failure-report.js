import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import {
  TheError,
  apply,
  asText,
  codeUnit,
  indexInText,
  inspectValue,
  isNativeError,
  lastIndexInText,
  sliceText,
  trimText
} from './intrinsics.js'

/** The name under which V8 reports places in the program's text. */
export const programName = 'program'
/** Lines that the compiled function has before the first line of the program: its head, and the directive. */
export const linesBefore = 3

const maxFrames = 10
const maxCauses = 3
const maxStack = 65_536
const unshowable = '(a value that cannot be shown)'

const folder = dirname(fileURLToPath(import.meta.url))
const hasInstance = Function.prototype[Symbol.hasInstance]

/**
 * What is told of a thrown value: `Name: message`, the places in the program, and up to three causes (code-mode.md §7.4, §12). It never
 * throws, whatever the value's getters do.
 * @param {unknown} thrown @returns {string}
 */
export function reportFailure(thrown) {
  if (!isError(thrown)) return withoutPaths(show(thrown))
  let text = headOf(thrown) + framesOf(thrown)
  let cause = member(thrown, 'cause')
  for (let count = 0; count < maxCauses && cause !== undefined && cause !== null; count += 1) {
    text += `\ncaused by: ${isError(cause) ? headOf(cause) : show(cause)}`
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

/** @param {object} error */
function headOf(error) {
  const name = textMember(error, 'name') || 'Error'
  const message = textMember(error, 'message')
  return message === '' ? name : `${name}: ${message}`
}

/** @param {object} error @param {string} key */
function textMember(error, key) {
  const value = member(error, key)
  return typeof value === 'string' ? value : ''
}

/** @param {object} holder @param {string} key @returns {unknown} */
function member(holder, key) {
  try {
    return /** @type {Record<string, unknown>} */ (holder)[key]
  } catch {
    return undefined
  }
}

/** @param {unknown} value */
function show(value) {
  if (typeof value === 'string') return value
  try {
    return typeof value === 'symbol' ? asText(value) : inspectValue(value)
  } catch {
    return unshowable
  }
}

/** The lines of the stack that lie in the program, with lines as in the submitted text. @param {object} error */
function framesOf(error) {
  const stack = sliceText(textMember(error, 'stack'), 0, maxStack)
  let frames = ''
  let count = 0
  let start = 0
  while (start < stack.length && count < maxFrames) {
    const end = indexInText(stack, '\n', start)
    const frame = frameIn(sliceText(stack, start, end === -1 ? stack.length : end))
    if (frame !== '') {
      frames += `\n    at ${frame}`
      count += 1
    }
    if (end === -1) break
    start = end + 1
  }
  return frames
}

/** `    at async helper (program:5:9)` becomes `helper (program:2:9)`; a line of anything else becomes ''. @param {string} line */
function frameIn(line) {
  const trimmed = trimText(line)
  if (sliceText(trimmed, 0, 3) !== 'at ') return ''
  const place = lastIndexInText(trimmed, `${programName}:`)
  if (place < 3 || (trimmed[place - 1] !== ' ' && trimmed[place - 1] !== '(')) return ''
  const row = numberAt(trimmed, place + programName.length + 1)
  const column = row === undefined ? undefined : numberAt(trimmed, row.end + 1)
  if (row === undefined || column === undefined || trimmed[row.end] !== ':' || row.value <= linesBefore) return ''
  const location = `${programName}:${row.value - linesBefore}:${column.value}`
  if (trimmed[place - 1] !== '(') return location
  let name = sliceText(trimmed, 3, place - 2)
  if (sliceText(name, 0, 6) === 'async ') name = sliceText(name, 6)
  return name === '' || name === 'eval' || name === 'anonymous' ? location : `${name} (${location})`
}

/** @param {string} text @param {number} start */
function numberAt(text, start) {
  let value = 0
  let end = start
  for (; end < text.length; end += 1) {
    const digit = codeUnit(text, end) - 48
    if (digit < 0 || digit > 9) break
    value = value * 10 + digit
  }
  return end === start ? undefined : { value, end }
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
