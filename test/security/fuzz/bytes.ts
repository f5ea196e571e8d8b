import { connect } from 'node:net'
import * as fc from 'fast-check'
import { upgradeRequest } from '../../helpers/raw-http.ts'
import { checkError, type FuzzedServer } from './fuzzed-server.ts'
import type { FuzzRequest } from './requests.ts'

/** The bytes of a request, and what becomes of them when they are turned, cut, doubled and mixed with others. */
export function bytesOf(requests: fc.Arbitrary<FuzzRequest>): fc.Arbitrary<Buffer> {
  const whole = fc.oneof(
    { arbitrary: requests.map(toBytes), weight: 4 },
    fc.constant(
      Buffer.from(
        upgradeRequest('/events', {
          Host: '@host@',
          Authorization: 'Bearer a-token-of-the-test',
          'Sec-WebSocket-Protocol': 'toolwright.v1'
        })
      )
    )
  )
  const junk = fc.oneof(
    fc.uint8Array({ minLength: 1, maxLength: 30 }).map((bytes) => Buffer.from(bytes)),
    fc
      .constantFrom(
        ...['\0', '\r\n', '\n', '\r\n\r\n', ' ', '%00', '\xff', '\t', ':', '0\r\n\r\n', 'ffffffffffffffff\r\n'],
        ...[
          'Transfer-Encoding: chunked\r\n',
          'Content-Length: 0\r\n',
          'Content-Length: 99999999999999999999\r\n',
          'Expect: 100-continue\r\n',
          'Expect: x\r\n'
        ],
        ...[
          'Upgrade: h2c\r\n',
          'Connection: Upgrade\r\n',
          'Host: a\r\n',
          'Authorization: Bearer a\r\n',
          `X: ${'y'.repeat(20_000)}\r\n`
        ],
        ...['\x81\x05hello', '\x88\x80\0\0\0\0', '\xc1\x80\0\0\0\0', '\x89\xff\x7f\xff\xff\xff\xff\xff\xff\xff']
      )
      .map((text) => Buffer.from(text, 'latin1'))
  )
  return fc
    .tuple(
      whole,
      fc.array(fc.tuple(fc.constantFrom('insert', 'cut', 'turn', 'line'), fc.nat(700), junk), {
        minLength: 1,
        maxLength: 4
      })
    )
    .map(([start, changes]) =>
      changes.reduce((bytes, [kind, at, more]) => {
        const place = at % (bytes.length + 1)
        if (kind === 'cut') return bytes.subarray(0, place)
        if (kind === 'insert') return Buffer.concat([bytes.subarray(0, place), more, bytes.subarray(place)])
        if (kind === 'turn')
          return Buffer.from(bytes.map((byte, index) => (index === place ? byte ^ (more[0] as number) : byte)))
        const line = bytes.indexOf('\r\n') + 2
        return Buffer.concat([bytes.subarray(0, line), more, bytes.subarray(line)])
      }, start)
    )
}

const toBytes = ({ method, path, headers, body = '' }: FuzzRequest): Buffer => {
  const all = {
    host: '@host@',
    authorization: 'Bearer a-token-of-the-test',
    'content-length': String(Buffer.byteLength(body)),
    ...headers
  }
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`)
  return Buffer.concat([
    Buffer.from(`${method} ${path} HTTP/1.1\r\n${lines.join('')}\r\n`, 'latin1'),
    Buffer.from(body)
  ])
}

/** Sends bytes, and half-closes; rejects when an answer comes that is none of ours. */
export function sendBytes(server: FuzzedServer, bytes: Buffer): Promise<void> {
  const filled = Buffer.from(
    server.fill(bytes.toString('latin1').replaceAll('@host@', `127.0.0.1:${server.port}`)),
    'latin1'
  )
  return new Promise((resolve, reject) => {
    const socket = connect(server.port, '127.0.0.1')
    const chunks: Buffer[] = []
    // A whole stream, or a request whose rest never comes, is left.
    socket.setTimeout(100, () => socket.destroy())
    socket.on('connect', () => socket.write(filled))
    socket.on('data', (chunk: Buffer) => chunks.push(chunk))
    socket.on('error', () => undefined)
    socket.on('close', () => {
      try {
        checkAnswer(Buffer.concat(chunks))
        resolve()
      } catch (error) {
        reject(error)
      }
    })
  })
}

/** What Node itself answers, without a body: no Host, an `Expect` that it does not know. */
const bare = new Set([400, 417])

function checkAnswer(answer: Buffer): void {
  if (answer.length === 0) return
  const text = answer.toString('latin1').replace(/^HTTP\/1\.1 100 Continue\r\n\r\n/, '')
  if (text === '') return
  const status = Number(/^HTTP\/1\.1 (\d{3})/.exec(text)?.[1])
  const wrong = (what: string): Error =>
    new Error(`bytes were answered with ${JSON.stringify(text.slice(0, 600))}: ${what}`)
  if (!Number.isInteger(status)) throw wrong('it is no HTTP')
  if (status >= 500 && status !== 503) throw wrong('no request may be answered so')
  if (status < 400) return
  const end = text.indexOf('\r\n\r\n')
  const [head, body] = [text.slice(0, end), text.slice(end + 4)]
  const length = Number(/^content-length: (\d+)$/im.exec(head)?.[1])
  if (bare.has(status) && !/^content-(type|length: [1-9])/im.test(head)) return
  // Of a HEAD there is no body; what was cut off says nothing.
  if (Buffer.byteLength(body, 'latin1') < length) return
  const parsed: any = jsonOf(Buffer.from(body.slice(0, length), 'latin1').toString())
  if (parsed === undefined) throw wrong('it is not of the form of errors')
  if (parsed.jsonrpc !== '2.0') checkError(parsed, status, wrong)
}

function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
