import { readFile } from 'node:fs/promises'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { FastifyInstance } from 'fastify'
import { onTestFinished } from 'vitest'
import { type ClientOptions, WebSocket } from 'ws'
import { type AppOptions, buildApp } from '../../server/app.ts'
import type { Role } from '../../server/auth/principal.ts'
import { loadConfig } from '../../server/config/load.ts'
import { openMemoryLog } from '../../server/event-log/memory-log.ts'
import { temporaryDirectory } from './temporary-directory.ts'
import { until } from './until.ts'

/** The whole server, listening on a free port, with a home of its own; closed when the test is over. */
export interface ServedApp {
  app: FastifyInstance
  port: number
  admin: string
  /** Every route there is, as `GET /events`; those of plugins too. */
  routes: string[]
  tokenFor: (role: Role, scope?: string) => Promise<string>
  /** A POST of JSON when `json` is given, else a GET, with the admin's token unless told. */
  call: (
    path: string,
    options?: { json?: unknown; token?: string; headers?: Record<string, string>; method?: string }
  ) => Promise<Response>
  /** Appends an event to a session of a scope, which must exist; the session is made at its first event. */
  append: (session: string, type: string, scope?: string) => Promise<void>
}

/**
 * With a log in memory, which starts in half the time, unless `log` is another one, the test names a `home`, or `isDurable`: what a test
 * shows of the durable one it shows with a server that is started again, or in a process of its own.
 */
export async function serveApp(
  settings: Record<string, string> = {},
  { log: given, isDurable = settings['home'] !== undefined }: Pick<AppOptions, 'log'> & { isDurable?: boolean } = {}
): Promise<ServedApp> {
  const home = settings['home'] ?? temporaryDirectory()
  const log = given ?? (isDurable ? undefined : openMemoryLog())
  const { config } = loadConfig({
    flags: new Map(
      Object.entries({
        home,
        'log.level': 'silent',
        'codeRuntime.backend': 'off',
        'store.ballastBytes': '0',
        ...settings
      })
    )
  })
  const routes: string[] = []
  const app = await buildApp(config, {
    ...(log !== undefined && { log }),
    first: async (instance) => {
      instance.addHook('onRoute', ({ url, method }) => {
        routes.push(...[method].flat().map((name) => `${name} ${url}`))
      })
    }
  })
  await app.listen({ host: '127.0.0.1', port: 0 })
  onTestFinished(() => app.close())
  const { port } = app.server.address() as AddressInfo
  const admin = (await readFile(join(home, 'admin-token'), 'utf8')).trim()
  const known = new Set<string>()
  return {
    app,
    port,
    admin,
    routes,
    tokenFor: async (role, scope = 'global') => (await app.tokens.create({ label: role, role, scope })).token,
    call: (path, { json, token = admin, headers, method } = {}) =>
      fetch(`http://127.0.0.1:${port}${path}`, {
        method: method ?? (json === undefined ? 'GET' : 'POST'),
        headers: {
          authorization: `Bearer ${token}`,
          ...(json !== undefined && { 'content-type': 'application/json' }),
          ...headers
        },
        ...(json !== undefined && { body: JSON.stringify(json) })
      }),
    append: async (session, type, scope = 'global') => {
      const row = { id: session, scope, created_at: Date.now() }
      const writes = known.has(session) ? [] : [{ table: 'sessions' as const, op: 'insert' as const, row }]
      known.add(session)
      await app.eventLog.append({ session, events: [{ type, data: { text: type } }], writes })
    }
  }
}

export type Frame = Record<string, unknown> & { type: string; event?: { type: string; seq?: number; session?: string } }

/** A client of `GET /events` that keeps what it got. */
export class EventClient {
  readonly socket: WebSocket
  readonly frames: Frame[] = []
  /** Resolves with the code of the close. */
  readonly closed: Promise<number>

  constructor(port: number, token: string, options: ClientOptions = {}) {
    this.socket = new WebSocket(`ws://127.0.0.1:${port}/events`, 'toolwright.v1', {
      headers: { authorization: `Bearer ${token}` },
      ...options
    })
    this.socket.on('message', (data: Buffer) => this.frames.push(JSON.parse(data.toString()) as Frame))
    this.closed = once(this.socket, 'close').then(([code]) => code as number)
    onTestFinished(() => this.socket.terminate())
  }

  static async open({ port, admin }: ServedApp, token = admin, options?: ClientOptions): Promise<EventClient> {
    const client = new EventClient(port, token, options)
    await once(client.socket, 'open')
    return client
  }

  send(frame: unknown): void {
    this.socket.send(typeof frame === 'string' || Buffer.isBuffer(frame) ? frame : JSON.stringify(frame))
  }

  /** The first frame for which `isMeant` holds, as soon as it is there. */
  async next(isMeant: (frame: Frame) => boolean): Promise<Frame> {
    await until(() => this.frames.some(isMeant))
    return this.frames.find(isMeant) as Frame
  }

  /** Sends a frame and gives the next one that comes. */
  async ask(frame: unknown): Promise<Frame> {
    const before = this.frames.length
    this.send(frame)
    await until(() => this.frames.length > before)
    return this.frames[before] as Frame
  }

  /** The types of the events that came under a subscription, in order. */
  events(id: string): string[] {
    return this.frames
      .filter((frame) => frame.type === 'event' && frame['id'] === id)
      .map(({ event }) => event?.type ?? '')
  }
}
