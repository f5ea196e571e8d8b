// A provider of two tools, which runs them in this process: see ../providers.md.
//
//   TOOLWRIGHT_TOKEN=… node provider.mjs
//
// Node 22 and later has a WebSocket that sends an Authorization header; for Node 20 there is the same one in a package: `npm install undici`.
import { setTimeout as wait } from 'node:timers/promises'

const { TOOLWRIGHT_URL = 'http://127.0.0.1:7410', TOOLWRIGHT_TOKEN = '', PROVIDER_ID = 'example-node' } = process.env
const { WebSocket } = globalThis.WebSocket === undefined ? await import('undici') : globalThis

const tools = {
  word_count: {
    description: 'Counts the words of a text.',
    parameters: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
    output: { schema: { type: 'integer' } },
    concurrency: 'parallel',
    idempotent: true,
    run: ({ text }) => text.split(/\s+/).filter(Boolean).length
  },
  countdown: {
    description: 'Counts down, a number a second.',
    parameters: {
      type: 'object',
      properties: { from: { type: 'integer', minimum: 0, maximum: 60 }, stepMs: { type: 'integer', minimum: 0 } },
      required: ['from']
    },
    concurrency: 'parallel',
    run: async ({ from, stepMs = 1000 }, { signal, progress }) => {
      for (let left = from; left > 0; left -= 1) {
        progress(`${left}\n`)
        await wait(stepMs, undefined, { signal })
      }
      return 'lift-off'
    }
  }
}

// Every call that was begun, by its dispatchId: one that comes again is answered again and not run again. An answer may have been
// lost on its way, so the last ones are kept until the server no longer asks for them.
const begun = new Map()
const keptCalls = 1000
let socket
let maxFrameBytes = 1024 * 1024
let delayMs = 0

const send = (frame) => {
  if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(frame))
}

const say = (text) => process.stdout.write(`${text}\n`)

const stop = (reason) => {
  say(reason)
  process.exit(1)
}

async function outcomeOf({ dispatchId, name, arguments: args }, signal) {
  say(`run ${name} ${dispatchId}`)
  try {
    const progress = (chunk) => send({ type: 'call/progress', dispatchId, chunk })
    const value = (await tools[name].run(args, { signal, progress })) ?? null
    const frame = { type: 'call/result', dispatchId, value }
    if (Buffer.byteLength(JSON.stringify(frame)) <= maxFrameBytes) return frame
    throw Object.assign(new Error('the result is too large for one frame'), { toolCode: 'RESULT_TOO_LARGE' })
  } catch ({ message, toolCode }) {
    return { type: 'call/result', dispatchId, error: { message: String(message), ...(toolCode && { code: toolCode }) } }
  }
}

async function onCall(frame) {
  const { dispatchId, name } = frame
  const known = begun.get(dispatchId)
  if (known) return known.answer && send(known.answer)
  if (!Object.hasOwn(tools, name)) {
    return send({ type: 'call/result', dispatchId, error: { message: `there is no tool ${name} here` } })
  }
  const call = { controller: new AbortController() }
  begun.set(dispatchId, call)
  for (const [id, { answer }] of begun) if (begun.size > keptCalls && answer) begun.delete(id)
  call.answer = await outcomeOf(frame, call.controller.signal)
  // On whichever socket there is by now; without one, the call comes again on the next.
  if (!call.controller.signal.aborted) send(call.answer)
}

function forget(dispatchId) {
  begun.get(dispatchId)?.controller.abort()
  begun.delete(dispatchId)
}

const handlers = {
  call: (frame) => void onCall(frame),
  'call/cancel': ({ dispatchId }) => forget(dispatchId),
  provided: (frame) => {
    ;({ maxFrameBytes } = frame)
    delayMs = 0
    say(`provided ${frame.tools.join(' ')}`)
    // What the server no longer waits for was cancelled meanwhile, or its answer has arrived.
    for (const dispatchId of begun.keys()) if (!frame.pending.includes(dispatchId)) forget(dispatchId)
  },
  'provider/ended': ({ reason }) => stop(`ended by the server: ${reason}`),
  error: ({ code, message, id, name }) => {
    say(`${code}: ${message}`)
    // A tool that is refused, and an answer that came too late, concern nothing else.
    if (id !== 'provide' || name !== undefined) return
    if (['FORBIDDEN', 'PROVIDER_TAKEN', 'UNKNOWN_SCOPE', 'BAD_FRAME'].includes(code)) stop('no tool can be registered')
    socket.close()
  }
}

function connect() {
  const url = new URL('/events', TOOLWRIGHT_URL.replace(/^http/, 'ws'))
  socket = new WebSocket(url, {
    protocols: ['toolwright.v1'],
    headers: { authorization: `Bearer ${TOOLWRIGHT_TOKEN}` }
  })
  socket.addEventListener('open', () => {
    const list = Object.entries(tools).map(([name, { run: _run, ...tool }]) => ({ name, ...tool }))
    send({ type: 'provide', id: 'provide', providerId: PROVIDER_ID, tools: list })
  })
  socket.addEventListener('message', ({ data }) => {
    const frame = JSON.parse(data)
    if (Object.hasOwn(handlers, frame.type)) handlers[frame.type](frame)
  })
  socket.addEventListener('error', () => undefined)
  socket.addEventListener('close', ({ code }) => {
    if (code === 4403) stop('the token is not good any more')
    // Twice as long each time, up to 30 s, and never all providers at the same moment.
    delayMs = Math.min(Math.max(delayMs * 2, 250), 30_000)
    setTimeout(connect, delayMs * (0.5 + Math.random() / 2))
  })
}

connect()
