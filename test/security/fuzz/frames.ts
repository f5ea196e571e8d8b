import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as fc from 'fast-check'
import { type RawData, WebSocket } from 'ws'
import { type FrameType, FrameTable } from '../../../plugins/engine/frames.ts'
import { buildApp } from '../../../server/app.ts'
import { loadConfig } from '../../../server/config/load.ts'
import { errorTable } from '../../../server/errors.ts'
import { ProvidedTool } from '../../../routes/schemas/provider-frames.ts'
import { until } from '../../helpers/until.ts'
import type { FuzzedServer } from './fuzzed-server.ts'
import { pools } from './requests.ts'
import { almostValid, hostile, hostileString, valid, wellFormed } from './values.ts'

/** Every type of frame that the server takes, as its parts add them when they are registered. */
export async function readFrameTypes(): Promise<Map<string, FrameType>> {
  const home = mkdtempSync(join(tmpdir(), 'toolwright-frames-'))
  const types = new Map<string, FrameType>()
  const { add } = FrameTable.prototype
  FrameTable.prototype.add = function (family) {
    for (const [type, frameType] of Object.entries(family.types)) types.set(type, frameType)
    add.call(this, family)
  }
  try {
    const flags = new Map(Object.entries({ home, 'log.level': 'silent', 'codeRuntime.backend': 'off' }))
    const app = await buildApp(loadConfig({ flags }).config)
    await app.close()
  } finally {
    FrameTable.prototype.add = add
    rmSync(home, { recursive: true, force: true })
  }
  return types
}

/** Frames of one type: as they must be, nearly so, cut off, and not at all. */
export function framesOf({ schema }: FrameType): fc.Arbitrary<string | Buffer> {
  const own = {
    ...pools,
    id: fc.constantFrom('a', 'b', 'x'.repeat(256)),
    tools: fc.array(valid(ProvidedTool, pools), { maxLength: 4 }),
    events: fc.constantFrom([['*']], [['tool/*']]).map(([events]) => events)
  }
  const frame = valid(schema, own)
  const text = (value: unknown): string => JSON.stringify(value) ?? ''
  return fc.oneof(
    { arbitrary: frame.map(text), weight: 6 },
    { arbitrary: almostValid(frame).map(text), weight: 6 },
    hostile.map(text),
    hostileString.map(wellFormed),
    fc.tuple(frame.map(text), fc.nat(200)).map(([whole, length]) => whole.slice(0, length)),
    fc
      .tuple(frame.map(text), fc.nat(200))
      .map(([whole, at]) => wellFormed(`${whole.slice(0, at)}\0${whole.slice(at)}`)),
    fc.uint8Array({ maxLength: 60 }).map((bytes) => Buffer.from(bytes)),
    fc.constantFrom(
      '',
      'null',
      '[]',
      '{"type":"__proto__"}',
      '{"type":"constructor","id":"a"}',
      '{"type":"subscribe","id":"a","__proto__":{"x":1}}'
    )
  )
}

/** One socket of the fuzzer; what the server says on it must be frames of ours, and never that it failed inside. */
export class FuzzedSocket {
  readonly #socket: WebSocket
  readonly #server: FuzzedServer
  readonly #answered = new Set<string>()
  #wrong: string | undefined
  #asked = 0

  private constructor(server: FuzzedServer, socket: WebSocket) {
    this.#server = server
    this.#socket = socket
    socket.on('message', (data) => this.#take(data))
    socket.on('close', (code) => (this.#wrong ??= `the socket was closed with ${code}`))
    socket.on('error', (error) => (this.#wrong ??= String(error)))
  }

  static async open(server: FuzzedServer): Promise<FuzzedSocket> {
    const headers = { authorization: 'Bearer a-token-of-the-test' }
    const socket = new WebSocket(`ws://127.0.0.1:${server.port}/events`, 'toolwright.v1', { headers })
    await once(socket, 'open')
    return new FuzzedSocket(server, socket)
  }

  /** Sends frames, and then one of which the answer is known; throws what was wrong meanwhile. */
  async send(frames: readonly (string | Buffer)[]): Promise<void> {
    for (const frame of frames) this.#socket.send(typeof frame === 'string' ? this.#server.fill(frame) : frame)
    const id = `still-there-${(this.#asked += 1)}`
    this.#socket.send(JSON.stringify({ type: 'unsubscribe', id }))
    await until(() => this.#answered.delete(id) || this.#wrong !== undefined, 30_000)
    if (this.#wrong !== undefined) throw new Error(this.#wrong)
  }

  async close(): Promise<void> {
    this.#socket.removeAllListeners('close')
    this.#socket.terminate()
  }

  #take(data: RawData): void {
    const frame = JSON.parse((data as Buffer).toString()) as Record<string, unknown>
    if (typeof frame['type'] !== 'string') this.#wrong ??= `a frame without a type: ${String(data)}`
    if (frame['type'] === 'call') this.#server.live['dispatch'] = [String(frame['dispatchId'])]
    if (frame['type'] !== 'error') return
    const code = String(frame['code'])
    if (code === 'NOT_FOUND' && typeof frame['id'] === 'string') this.#answered.add(frame['id'])
    const isKnown = code === 'BAD_FRAME' || (Object.hasOwn(errorTable, code) && code !== 'INTERNAL')
    if (!isKnown || typeof frame['message'] !== 'string') this.#wrong ??= `a frame was answered with ${String(data)}`
  }
}
