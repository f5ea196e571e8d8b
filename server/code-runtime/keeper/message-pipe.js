import { FrameReader } from '../protocol.js'
import { decodeMessage, encodeMessage } from './message-frames.js'
import { readFrames } from './read-frames.js'

/** What one side may have unsent before it is asked to wait. */
const maxUnsentBytes = 8 * 1024 * 1024
/** Of one message; the results of runs, up to `maxOutputBytes` each, are the largest. */
const maxMessageBytes = 2 ** 31

/**
 * Messages between the server and the process that holds the worlds, each after its length: Node's own channel copies a large one
 * again with each piece that comes.
 * @template {{ type: string }} Sent
 * @template Received
 */
export class MessagePipe {
  #socket
  /** @type {Promise<void> | undefined} */
  #room
  #isCorked = false

  /** @param {import('node:net').Socket} socket @param {(message: Received) => void} receive @param {() => void} onEnd */
  constructor(socket, receive, onEnd) {
    this.#socket = socket
    /** @type {FrameReader<Received>} */
    const reader = new FrameReader(maxMessageBytes, decodeMessage)
    readFrames(socket, reader, receive, () => socket.destroy())
    // That the other side is gone is told by the end.
    socket.on('error', () => {})
    socket.on('close', onEnd)
  }

  /** @param {Sent} message */
  post(message) {
    if (!this.#socket.writable) return
    // All that is said in one turn goes in one write.
    if (!this.#isCorked) {
      this.#isCorked = true
      this.#socket.cork()
      process.nextTick(() => {
        this.#isCorked = false
        this.#socket.uncork()
      })
    }
    this.#socket.write(encodeMessage(message))
  }

  /** Resolves when the other side has taken enough of what was said; undefined if it has. */
  room() {
    if (!this.#socket.writable || this.#socket.writableLength <= maxUnsentBytes) return undefined
    this.#room ??= new Promise((resolve) => {
      const go = () => {
        this.#room = undefined
        this.#socket.off('drain', go).off('close', go)
        resolve()
      }
      this.#socket.on('drain', go).on('close', go)
    })
    return this.#room
  }

  ref() {
    this.#socket.ref()
  }

  unref() {
    this.#socket.unref()
  }
}
