/**
 * The trusted main thread of a world's process: the program runs in a thread beside it, and cannot reach this realm. That thread has
 * descriptor 3 to itself; over descriptor 4 this one tells how busy it is and how it ended, and hears when the server is gone: then it
 * ends the process (code-mode.md §15.2).
 */
import { Socket } from 'node:net'
import { encodeFrame } from '../protocol.js'
import { HostedWorld } from '../world/hosted-world.js'

const busyEveryMs = 50
const leastBusyMs = 10

const limits = JSON.parse(process.argv[2] ?? '')
const pipe = new Socket({ fd: 4, readable: true, writable: true })
pipe.resume()
for (const event of ['error', 'close']) pipe.on(event, () => process.kill(0, 'SIGKILL'))
const world = new HostedWorld(
  limits,
  { descriptor: 3 },
  {
    raw: (stream, text) => process[stream].write(text),
    ended: (frames) => {
      for (const frame of frames) pipe.write(encodeFrame(frame))
    }
  }
)

let reported = 0
setInterval(() => {
  const { busyMs } = world
  if (busyMs - reported < leastBusyMs) return
  reported = busyMs
  pipe.write(encodeFrame(JSON.stringify(['busy', busyMs])))
}, busyEveryMs)
