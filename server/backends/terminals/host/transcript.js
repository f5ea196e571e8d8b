import { OutputCollector } from '../../subprocess/output-collector.js'
import { partialStart } from '../../subprocess/utf8-cut.js'

/** @import { TerminalOutput, TerminalPage } from '../terminals.ts' */

/** The text of a terminal: the last bytes of it, with offsets that count from the start. */
export class Transcript {
  #collector
  /** Bytes so far. */
  total = 0

  /** @param {{ scrollbackLines: number, scrollbackBytes: number, viewportBytes: number }} limits */
  constructor(limits) {
    this.limits = limits
    this.#collector = new OutputCollector({ maxBytes: limits.scrollbackBytes })
  }

  /** @param {string} text */
  write(text) {
    const bytes = Buffer.from(text, 'utf8')
    this.total += bytes.length
    this.#collector.write(bytes)
  }

  /**
   * The last bytes from one offset to another that fit; `lossy` when some are missing at the start.
   * @param {number} offset
   * @param {number} [end]
   * @returns {{ text: string, lossy: boolean }}
   */
  tail(offset, end = this.total) {
    const bytes = this.#from(offset)
    const wanted = bytes.subarray(0, Math.max(0, bytes.length - (this.total - end)))
    const fitting = lastBytes(wanted, this.limits.viewportBytes)
    return { text: fitting.toString('utf8'), lossy: fitting.length < end - offset }
  }

  /**
   * The first bytes from an offset to another that fit, in whole characters, and one of these at least.
   * @param {number} after
   * @param {number} maxBytes
   * @param {number} [end]
   * @returns {TerminalOutput}
   */
  head(after, maxBytes, end = this.total) {
    const asked = Math.min(after, end)
    const kept = this.#from(asked)
    const whole = kept.subarray(partialStart(kept))
    const from = this.total - whole.length
    const bytes = whole.subarray(0, Math.max(0, end - from))
    let length = Math.min(bytes.length, maxBytes)
    while (length > 0 && isContinuation(bytes[length])) length--
    if (length === 0 && bytes.length > 0) {
      do length++
      while (isContinuation(bytes[length]))
    }
    const text = bytes.subarray(0, length).toString('utf8')
    return { text, from, next: from + length, lossy: kept.length < this.total - asked }
  }

  /**
   * @param {number} offset lines back from the newest
   * @param {number} count
   * @returns {TerminalPage}
   */
  page(offset, count) {
    const lines = this.#lines()
    const end = Math.max(0, lines.length - offset)
    const shown = lines.slice(Math.max(0, end - count), end)
    const whole = Buffer.from(shown.join('\n'), 'utf8')
    const fitting = lastBytes(whole, this.limits.viewportBytes)
    return {
      text: fitting.toString('utf8'),
      totalLines: lines.length,
      lineBegin: offset,
      lineEnd: offset + shown.length,
      truncated: fitting.length < whole.length
    }
  }

  #lines() {
    const bytes = this.#from(0)
    const isWhole = bytes.length === this.total
    const lines = bytes
      .subarray(isWhole ? 0 : partialStart(bytes))
      .toString('utf8')
      .split('\n')
    // An empty piece after the last newline is no line, and a piece of a line is none when there are whole ones.
    if (lines.at(-1) === '') lines.pop()
    if (!isWhole && lines.length > 1) lines.shift()
    return lines.slice(-this.limits.scrollbackLines)
  }

  /** @param {number} offset */
  #from(offset) {
    const { bytes } = this.#collector.tailFrom(offset)
    return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length)
  }
}

/** @param {Buffer} bytes @param {number} count */
function lastBytes(bytes, count) {
  if (bytes.length <= count) return bytes
  const last = bytes.subarray(bytes.length - count)
  return last.subarray(partialStart(last))
}

/** @param {number | undefined} byte */
const isContinuation = (byte) => byte !== undefined && (byte & 0xc0) === 0x80
