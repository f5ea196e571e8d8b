// Opens `count` sockets, subscribes on each, and says on standard output when all are open and when each has got `frames` events.
import { once } from 'node:events'
import { WebSocket } from 'ws'

const [, , url = '', token = '', count = '1', frames = '1'] = process.argv
let full = 0

async function open() {
  const socket = new WebSocket(url, 'toolwright.v1', { headers: { authorization: `Bearer ${token}` } })
  let got = 0
  let isSubscribed = () => {}
  const subscribed = new Promise((resolve) => (isSubscribed = () => resolve(undefined)))
  socket.on('message', (/** @type {Buffer} */ data) => {
    if (data[9] === 0x73) return isSubscribed()
    got += 1
    if (got !== Number(frames)) return
    full += 1
    if (full === Number(count)) process.stdout.write('done\n')
  })
  await once(socket, 'open')
  socket.send('{"type":"subscribe","id":"x","events":["note"]}')
  await subscribed
}

for (let n = 0; n < Number(count); n += 50) {
  await Promise.all(Array.from({ length: Math.min(50, Number(count) - n) }, open))
}
process.stdout.write('open\n')
