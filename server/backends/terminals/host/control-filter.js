/** The longest control string that is looked at; of a longer one only the end is waited for. */
const MAX_STRING = 64

const LINE_FEED = 0x0a
const CARRIAGE_RETURN = 0x0d

const GROUND = 0
const ESCAPE = 1
/** ESC with intermediates, such as the choice of a character set: ends at its final character. */
const ESCAPE_MORE = 2
const CSI = 3
/** OSC, DCS, SOS, PM, APC: a string up to its terminator. */
const STRING = 4

/** The shell's sign that a command is over (OSC 133;D), which its prompt follows. */
const promptMark = /^133;D(?:;|$)/

/**
 * Makes plain text of what a terminal is sent (backends.md §5.2): escape sequences and control characters are taken out, wherever
 * chunks cut them; CRLF and a lone CR become a newline. Nothing of a sequence is kept but the first characters of a control string.
 */
export class ControlFilter {
  #state = GROUND
  #hasCarriageReturn = false
  #isOsc = false
  #string = ''

  /**
   * @param {string} input
   * @returns {{ text: string, markAt: number }} `markAt`: where in the text the last prompt mark stood, −1 without one
   */
  write(input) {
    let text = ''
    let markAt = -1
    let from = 0
    for (let at = 0; at < input.length; at++) {
      const unit = input.charCodeAt(at)
      if (this.#state === GROUND && !this.#hasCarriageReturn && isPlain(unit)) continue
      text += input.slice(from, at)
      from = at + 1
      const isLineEnd = unit === LINE_FEED || unit === CARRIAGE_RETURN
      // As in any terminal, a line end within a sequence is a line end, and the sequence goes on.
      if (this.#state !== GROUND && (this.#state === STRING || !isLineEnd)) {
        if (this.#inSequence(unit)) markAt = text.length
        continue
      }
      if (unit === CARRIAGE_RETURN) {
        this.#hasCarriageReturn = true
        continue
      }
      if (unit === LINE_FEED || this.#hasCarriageReturn) text += '\n'
      this.#hasCarriageReturn = false
      if (unit === LINE_FEED) continue
      if (isPlain(unit)) from = at
      else this.#control(unit)
    }
    text += input.slice(from)
    return { text, markAt }
  }

  /** What was held back. Nothing may be written afterwards. */
  end() {
    return this.#hasCarriageReturn ? '\n' : ''
  }

  /** @param {number} unit a control character in plain text */
  #control(unit) {
    if (unit === 0x1b) this.#state = ESCAPE
    else if (unit === 0x9b) this.#state = CSI
    else if (unit === 0x9d) this.#openString(true)
    else if (unit === 0x90 || unit === 0x98 || unit === 0x9e || unit === 0x9f) this.#openString(false)
  }

  /** @param {boolean} isOsc */
  #openString(isOsc) {
    this.#state = STRING
    this.#isOsc = isOsc
    this.#string = ''
  }

  /**
   * One character inside a sequence; true when it completes a prompt mark.
   * @param {number} unit
   */
  #inSequence(unit) {
    // CAN and SUB abort, ESC begins anew.
    if (unit === 0x18 || unit === 0x1a) this.#state = GROUND
    else if (this.#state === STRING) return this.#inString(unit)
    else if (unit >= 0x80 && unit < 0xa0) {
      this.#state = GROUND
      this.#control(unit)
    } else if (unit === 0x1b) this.#state = ESCAPE
    else if (this.#state === ESCAPE) this.#afterEscape(unit)
    else if (this.#state === CSI) {
      if (unit >= 0x40 && unit !== 0x7f) this.#state = GROUND
    } else if (unit >= 0x30 && unit !== 0x7f) this.#state = GROUND
    return false
  }

  /** @param {number} unit */
  #afterEscape(unit) {
    const character = String.fromCharCode(unit)
    if (character === '[') this.#state = CSI
    else if (character === ']') this.#openString(true)
    else if ('PX^_'.includes(character)) this.#openString(false)
    else if (unit >= 0x20 && unit < 0x30) this.#state = ESCAPE_MORE
    else if (unit >= 0x20) this.#state = GROUND
  }

  /** @param {number} unit */
  #inString(unit) {
    if (unit === 0x1b) {
      // ST is ESC \; any other sequence aborts the string, so that an open one cannot hide the rest of the session.
      this.#state = ESCAPE
      return this.#endString()
    }
    if (unit === 0x9c || (unit === 0x07 && this.#isOsc)) {
      this.#state = GROUND
      return this.#endString()
    }
    if (this.#string.length < MAX_STRING) this.#string += String.fromCharCode(unit)
    return false
  }

  #endString() {
    const isMark = this.#isOsc && promptMark.test(this.#string)
    this.#string = ''
    return isMark
  }
}

/** Text, a tab or a newline. @param {number} unit */
const isPlain = (unit) => (unit >= 0x20 && unit < 0x7f) || unit > 0x9f || unit === LINE_FEED || unit === 0x09
