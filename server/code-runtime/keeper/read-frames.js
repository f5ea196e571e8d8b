/** @import { Socket } from 'node:net' */
/** @import { FrameReader } from '../protocol.js' */

/** With more frames than these at once a pipe waits for the others' turn: it may hold thousands, and is read over and over. */
const framesPerTurn = 128

/**
 * Reads a pipe frame by frame, some in each turn of the loop.
 * @template Frame
 * @param {Socket} pipe @param {FrameReader<Frame>} reader @param {(frame: Frame) => void} take
 * @param {() => void} onFault hears that a frame is too large, or could not be taken
 * @param {() => Promise<void> | undefined} [room] what the next frames wait for
 */
export function readFrames(pipe, reader, take, onFault, room = () => undefined) {
  /** @type {Frame[]} */
  let frames = []
  let next = 0
  /** @param {number} most */
  const takeSome = (most) => {
    const some = frames.slice(next, next + most)
    next += some.length
    for (const frame of some) take(frame)
  }
  const goOn = () => {
    // What is answered at once, as calls that are refused, goes in one write.
    pipe.cork()
    takeSome(framesPerTurn)
    pipe.uncork()
    const later = room()
    if (next === frames.length && later === undefined) return pipe.resume()
    pipe.pause()
    if (later === undefined) setImmediate(guarded, goOn)
    else void later.then(() => guarded(goOn))
  }
  /** @param {() => void} act */
  const guarded = (act) => {
    try {
      act()
    } catch {
      onFault()
    }
  }
  pipe.on('data', (chunk) =>
    guarded(() => {
      frames = reader.push(chunk)
      next = 0
      goOn()
    })
  )
  pipe.on('close', () => guarded(() => takeSome(frames.length)))
}
