// A tool server for Toolwright's `http` executor, with nothing but Node's standard library.
//
//   TOOL_SECRET=<signingSecret of the answer to POST /tools> node verify-signature.mjs 8787
//
// Answers the tool "reverse": { "text": "abc" } → "cba".
import { createHmac, timingSafeEqual } from 'node:crypto'
import { createServer } from 'node:http'

const secret = process.env.TOOL_SECRET
if (!secret) throw new Error('TOOL_SECRET is not set')
const maxAgeMs = 5 * 60_000
const maxBodyBytes = 8 * 1024 * 1024

/** Whether the header `t=<epoch ms>,v1=<hex>` signs `<epoch ms>.<body>`, and not too long ago. */
function isSigned(header, body) {
  const [, time, mac] = /^t=(\d{1,15}),v1=([0-9a-f]{64})$/.exec(header ?? '') ?? []
  if (mac === undefined || Math.abs(Date.now() - Number(time)) > maxAgeMs) return false
  const expected = createHmac('sha256', secret).update(`${time}.`).update(body).digest()
  return timingSafeEqual(Buffer.from(mac, 'hex'), expected)
}

function reverse({ text }) {
  if (text === '') return { error: { message: 'there is nothing to reverse', code: 'EMPTY_TEXT' } }
  return { value: [...text].toReversed().join('') }
}

async function readBody(request) {
  const pieces = []
  let size = 0
  for await (const piece of request) {
    size += piece.length
    if (size > maxBodyBytes) throw new Error('the body is too large')
    pieces.push(piece)
  }
  return Buffer.concat(pieces)
}

async function handle(request, response) {
  const answer = (status, value) => {
    response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))
  }
  try {
    const body = await readBody(request)
    if (!isSigned(request.headers['x-toolwright-signature'], body)) {
      return answer(401, { error: { message: 'the signature is not valid', code: 'BAD_SIGNATURE' } })
    }
    // The caller has given up by then, so work that cannot be done in time need not begin.
    const deadlineAt = Number(request.headers['x-toolwright-deadline'])
    if (Date.now() > deadlineAt) return answer(504, { error: { message: 'too late' } })
    const call = JSON.parse(body.toString('utf8'))
    return answer(200, reverse(call.arguments))
  } catch (error) {
    return answer(500, { error: { message: error.message } })
  }
}

const server = createServer((request, response) => void handle(request, response))

server.listen(Number(process.argv[2] ?? 8787), '127.0.0.1', () => {
  process.stdout.write(`listening on http://127.0.0.1:${server.address().port}\n`)
})
