/**
 * The trusted main thread of a world's process: the program runs in a thread beside it, and cannot reach this realm. It carries frames
 * between the pipe and that thread, and ends the process when the server is gone (code-mode.md §15.2).
 */
import { Socket } from 'node:net'
import { FrameReader, encodeFrame } from '../protocol.js'
import { HostedWorld } from '../world/hosted-world.js'

const busyEveryMs = 50
const leastBusyMs = 10

const limits = JSON.parse(process.argv[2] ?? '')
const pipe = new Socket({ fd: 3, readable: true, writable: true })
let hasStarted = false
const reader = new FrameReader(Infinity)
const world = new HostedWorld(limits, (frame, passedOn) => {
  // What is no text is none of ours; the host counts it as junk.
  pipe.write(encodeFrame(typeof frame === 'string' ? frame : ''), passedOn)
})

pipe.on('data', (/** @type {Buffer} */ chunk) => {
  for (const frame of reader.push(chunk)) {
    // Said before the program can run: where it was not heard, another world may take the program.
    if (!hasStarted) pipe.write(encodeFrame('["started"]'))
    hasStarted = true
    world.send(frame)
  }
})
for (const event of ['error', 'close']) pipe.on(event, () => process.kill(0, 'SIGKILL'))

let reported = 0
setInterval(() => {
  const { busyMs } = world
  if (busyMs - reported < leastBusyMs) return
  reported = busyMs
  pipe.write(encodeFrame(JSON.stringify(['busy', busyMs])))
}, busyEveryMs)
