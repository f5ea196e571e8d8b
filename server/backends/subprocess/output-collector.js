import { closeSync, mkdirSync, openSync, rmSync, writeSync } from 'node:fs'
import { randomBytes } from 'node:crypto'
import { join } from 'node:path'

/** @import { Tail } from './messages.ts' */

/**
 * Keeps the last `maxBytes` bytes of a stream and, from the first overflow on, all of it in a file (backends.md §2).
 *
 * The bytes live in one buffer of up to twice the cap, so that a stream of single bytes costs no object each and an append is
 * a copy now and then.
 */
export class OutputCollector {
  #buffer = Buffer.alloc(0)
  #used = 0
  #total = 0
  #spill
  #isSealed = false

  /** @param {{ maxBytes: number, spill?: { maxBytes: number, directory: string } }} limits */
  constructor(limits) {
    this.maxBytes = limits.maxBytes
    this.#spill = limits.spill && new SpillFile(limits.spill)
  }

  /** @param {Buffer} chunk */
  write(chunk) {
    if (this.#isSealed) return
    if (this.#total + chunk.length > this.maxBytes) {
      if (this.#total <= this.maxBytes) this.#spill?.write(this.#buffer.subarray(0, this.#used))
      this.#spill?.write(chunk)
    }
    this.#total += chunk.length
    const kept = chunk.length > this.maxBytes ? chunk.subarray(chunk.length - this.maxBytes) : chunk
    this.#reserve(kept.length)
    kept.copy(this.#buffer, this.#used)
    this.#used += kept.length
  }

  /** @param {number} length */
  #reserve(length) {
    if (this.#used + length <= this.#buffer.length) return
    const kept = Math.min(this.#used, this.maxBytes)
    const needed = kept + length
    const from = this.#used - kept
    if (needed > this.#buffer.length) {
      const grown = Buffer.allocUnsafe(Math.min(2 * this.maxBytes, Math.max(1024, 2 * needed)))
      this.#buffer.copy(grown, 0, from, this.#used)
      this.#buffer = grown
    } else {
      this.#buffer.copyWithin(0, from, this.#used)
    }
    this.#used = kept
  }

  /**
   * What is kept from `offset` on, as a copy.
   * @param {number} offset
   * @returns {Tail}
   */
  tailFrom(offset) {
    const kept = Math.min(this.#used, this.maxBytes)
    const length = Math.max(0, Math.min(kept, this.#total - offset))
    const bytes = new Uint8Array(this.#buffer.subarray(this.#used - length, this.#used))
    const spillPath = this.#total > this.maxBytes ? this.#spill?.path : undefined
    return { bytes, total: this.#total, ...(spillPath === undefined ? {} : { spillPath }) }
  }

  /** Takes nothing more, closes the file and gives up the memory. @returns {Tail} */
  seal() {
    this.#isSealed = true
    this.#spill?.close()
    const tail = this.tailFrom(0)
    this.#buffer = Buffer.alloc(0)
    return tail
  }
}

/** A private file that holds a whole stream or does not exist. */
class SpillFile {
  #bytes = 0
  /** @type {number | undefined} */
  #descriptor
  #isGivenUp = false
  /** @type {string | undefined} */
  path

  /** @param {{ maxBytes: number, directory: string }} options */
  constructor({ maxBytes, directory }) {
    this.maxBytes = maxBytes
    this.directory = directory
  }

  /** @param {Buffer} chunk */
  write(chunk) {
    if (this.#isGivenUp) return
    this.#bytes += chunk.length
    if (this.#bytes > this.maxBytes) return this.#giveUp()
    try {
      if (this.#descriptor === undefined) {
        mkdirSync(this.directory, { recursive: true, mode: 0o700 })
        const path = join(this.directory, `output-${randomBytes(12).toString('hex')}.txt`)
        this.#descriptor = openSync(path, 'wx', 0o600)
        this.path = path
      }
      for (let at = 0; at < chunk.length;) at += writeSync(this.#descriptor, chunk, at)
    } catch {
      // A full disk costs the file, not the command.
      this.#giveUp()
    }
  }

  close() {
    if (this.#descriptor === undefined) return
    try {
      closeSync(this.#descriptor)
      this.#descriptor = undefined
    } catch {
      // Bytes may be missing: no path is better than a path to half a stream.
      this.#descriptor = undefined
      this.#giveUp()
    }
  }

  #giveUp() {
    this.#isGivenUp = true
    this.close()
    if (this.path !== undefined) rmSync(this.path, { force: true })
    this.path = undefined
  }
}
