/**
 * The trusted main thread of a world's process: the program runs in a thread beside it, and cannot reach this realm. That thread has
 * descriptor 3 to itself; over descriptor 4 this one tells how busy it is and how it ended, and hears when the server is gone: then it
 * ends the process (code-mode.md §15.2).
 */
import { closeSync, readdirSync, readFileSync } from 'node:fs'
import { Socket } from 'node:net'
import { encodeFrame } from '../protocol.js'
import { HostedWorld } from '../world/hosted-world.js'

const busyEveryMs = 50
const leastBusyMs = 10

const lastPipe = 4
const closesOnExec = 0o2000000

closeInherited()
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

/** What whoever started the server had open, and no exec has closed, is no business of a program; what Node itself opens closes on exec. */
function closeInherited() {
  for (const descriptor of readdirSync('/proc/self/fd').map(Number)) {
    if (descriptor > lastPipe && isInherited(descriptor)) closeSync(descriptor)
  }
}

/** @param {number} descriptor */
function isInherited(descriptor) {
  try {
    const [, flags = ''] = /^flags:\s+([0-7]+)/m.exec(readFileSync(`/proc/self/fdinfo/${descriptor}`, 'latin1')) ?? []
    return (Number.parseInt(flags, 8) & closesOnExec) === 0
  } catch {
    // The list was read with it.
    return false
  }
}
