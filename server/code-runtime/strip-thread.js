/** The thread of the type stripper (strip-types.ts): a wasm instance that one deeply nested program may ruin for good. */
import { parentPort } from 'node:worker_threads'
import { withMemoryLimit } from './wasm-memory-limit.js'

/** @import { StripAnswer } from './strip-types.ts' */

/** A megabyte of the worst programs that were tried takes 150 MB. An allocation beyond this ruins the instance. */
const maxWasmBytes = 256 * 1024 * 1024
/** The memory of an instance never shrinks; with 50 kB of program it is some 5 MB. */
const wornAtBytes = 32 * 1024 * 1024

const { Module } = WebAssembly
class LimitedModule extends Module {
  /** @param {Uint8Array} bytes */
  constructor(bytes) {
    super(withMemoryLimit(bytes, maxWasmBytes))
  }
}
Object.defineProperty(WebAssembly, 'Module', { value: LimitedModule })
const stripper = await import('@swc/wasm-typescript')
const { transformSync } = stripper
const { memory } = /** @type {{ __wasm: { memory: { buffer: ArrayBuffer } } }} */ (/** @type {unknown} */ (stripper))
  .__wasm

const port = /** @type {import('node:worker_threads').MessagePort} */ (parentPort)
const head = 'async function program() {\n'
const tail = '\n}'

/** @param {string} program @returns {StripAnswer} */
function strip(program) {
  try {
    const { code } = transformSync(head + program + tail, { mode: 'strip-only', module: true, filename: 'program.ts' })
    // Lengths agree in UTF-16 units, not in bytes (code-mode.md §7.1).
    if (code.length !== head.length + program.length + tail.length) return { type: 'broken' }
    return { type: 'code', code: code.slice(head.length, head.length + program.length) }
  } catch (error) {
    return report(error, program)
  }
}

/**
 * A syntax report is a plain object; whatever else is thrown leaves the instance in ruins.
 * @param {unknown} error @param {string} program @returns {StripAnswer}
 */
function report(error, program) {
  const { code, message, startLine, startColumn } = /** @type {Record<string, unknown>} */ (error ?? {})
  if ((code !== 'InvalidSyntax' && code !== 'UnsupportedSyntax') || typeof message !== 'string')
    return { type: 'broken' }
  const line = typeof startLine === 'number' ? startLine - 1 : 0
  const text = message.replaceAll(/\s+/g, ' ').trim()
  if (line > program.split('\n').length) return { type: 'refused', message: `SyntaxError: ${atEnd(text)}` }
  const place = line > 0 ? ` (program:${line}:${Number(startColumn) + 1})` : ''
  return { type: 'refused', message: `SyntaxError: ${text}${place}` }
}

/** What is missed is missed where the program ends: the brace that is met there is not the program's. @param {string} message */
function atEnd(message) {
  const told = message.replace(/, got '(?:\}|<eof>)'$/, '').replace(/^Unexpected token `\}`\. /, '')
  return `${told} (at the end of the program)`
}

// The first call costs 30 to 100 ms.
strip('const warm: number = 1')
port.on('message', (/** @type {string} */ program) => {
  const answer = strip(program)
  port.postMessage({ ...answer, isWorn: memory.buffer.byteLength > wornAtBytes })
})
port.postMessage({ type: 'ready' })
