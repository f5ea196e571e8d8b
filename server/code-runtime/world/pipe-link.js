import { writeSync } from 'node:fs'
import { Socket } from 'node:net'
import { TheArrayBuffer, asBytes, decodeText, encodeText, setBytes } from './intrinsics.js'

const lengthBytes = 4
const readBytes = 65_536
/** A full pipe is tried again after this. */
const retryMs = 0.2

const { wait } = Atomics
const never = new Int32Array(new SharedArrayBuffer(4))

/**
 * Frames of a world that is a process: the program's thread reads and writes the pipe itself. Carried by the relay's thread, each frame
 * would wake one more thread, and that is most of what a call costs.
 */
export class PipeLink {
  #descriptor
  #receive
  /** What is read: the length of a frame, or else the frame. */
  #isBody = false
  #part = new ArrayBuffer(lengthBytes)
  #length = lengthBytes
  #held = 0

  /** @param {number} descriptor @param {(frame: string) => void} receive */
  constructor(descriptor, receive) {
    this.#descriptor = descriptor
    this.#receive = receive
    const store = new ArrayBuffer(readBytes)
    // With a buffer of its own a socket only calls back: streams are made of what a program may have replaced.
    const onread = {
      buffer: new Uint8Array(store),
      callback: (/** @type {number} */ count) => {
        for (let at = 0; at < count;) at += this.#take(store, at, count - at)
        return true
      }
    }
    const options = /** @type {import('node:net').SocketConstructorOpts} */ ({ fd: descriptor, onread })
    // The relay ends the process when the server is gone.
    new Socket(options).on('error', () => {})
  }

  /** Blocks the program while the pipe is full. @param {string} frame */
  send(frame) {
    const { bytes, length } = encodeText(frame, lengthBytes)
    for (let place = 0; place < lengthBytes; place += 1) bytes[place] = length >>> (8 * (lengthBytes - 1 - place))
    for (let at = 0; at < lengthBytes + length;) at += this.#write(bytes, at, lengthBytes + length - at)
  }

  /** @param {Uint8Array} bytes @param {number} at @param {number} length */
  #write(bytes, at, length) {
    try {
      return writeSync(this.#descriptor, bytes, at, length)
    } catch (error) {
      if (/** @type {NodeJS.ErrnoException} */ (error).code !== 'EAGAIN') throw error
      wait(never, 0, 0, retryMs)
      return 0
    }
  }

  /** @param {ArrayBuffer} store @param {number} at @param {number} most @returns {number} bytes that were taken */
  #take(store, at, most) {
    const missing = this.#length - this.#held
    const taken = missing < most ? missing : most
    setBytes(asBytes(this.#part), asBytes(store, at, taken), this.#held)
    this.#held += taken
    if (this.#held === this.#length) this.#complete()
    return taken
  }

  #complete() {
    const bytes = asBytes(this.#part)
    let length = lengthBytes
    if (!this.#isBody) {
      length = 0
      for (let place = 0; place < lengthBytes; place += 1) length = length * 256 + (bytes[place] ?? 0)
    }
    const frame = this.#isBody ? decodeText(bytes) : undefined
    this.#isBody = !this.#isBody
    this.#part = new TheArrayBuffer(length)
    this.#length = length
    this.#held = 0
    if (frame !== undefined) this.#receive(frame)
  }
}
