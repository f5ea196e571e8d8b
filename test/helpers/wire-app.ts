import { mkdtemp, rm } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fastify, { type FastifyInstance } from 'fastify'
import type { DestinationStream } from 'pino'
import { onTestFinished } from 'vitest'
import { auth } from '../../plugins/engine/auth.ts'
import { body } from '../../plugins/engine/body.ts'
import { connections } from '../../plugins/engine/connections.ts'
import { errors } from '../../plugins/engine/errors.ts'
import { frames } from '../../plugins/engine/frames.ts'
import { healthState } from '../../plugins/engine/health-state.ts'
import { loadShedding } from '../../plugins/engine/load-shedding.ts'
import { createLogger } from '../../plugins/engine/logging.ts'
import { serverOptions } from '../../plugins/engine/server-options.ts'
import { shutdown } from '../../plugins/engine/shutdown.ts'
import { validation } from '../../plugins/engine/validation.ts'
import { websocket } from '../../plugins/engine/websocket.ts'
import { healthRoutes } from '../../routes/health.ts'
import { ticketRoutes } from '../../routes/tickets.ts'
import { tokenRoutes } from '../../routes/tokens.ts'
import { allowAddresses } from '../../server/auth/addresses.ts'
import type { Role, ScopeReach } from '../../server/auth/principal.ts'
import { Tickets } from '../../server/auth/tickets.ts'
import { AccessTokens } from '../../server/auth/tokens.ts'
import { loadConfig } from '../../server/config/load.ts'
import type { EventLog } from '../../server/event-log/event-log.ts'
import { openMemoryLog } from '../../server/event-log/memory-log.ts'

/** A server of the wire's own plugins and routes, listening, without the engine. It is closed when the test is over. */
export interface WireApp {
  app: FastifyInstance
  log: EventLog
  port: number
  url: string
  admin: string
  tokenFor: (role: Role, scope?: string) => Promise<string>
  /** `fetch` with a token, the admin's unless told. */
  call: (path: string, init?: CallOptions) => Promise<Response>
}

export interface CallOptions extends Omit<RequestInit, 'headers'> {
  token?: string | undefined
  json?: unknown
  headers?: Record<string, string>
}

export interface WireOptions {
  settings?: Record<string, string>
  /** Parents of the scopes that exist, beside `global`. */
  scopes?: Record<string, string>
  /** A monotonic clock for the tickets, in milliseconds. */
  clock?: () => number
  stream?: DestinationStream
  /** Adds routes and frames. */
  routes?: (app: FastifyInstance) => Promise<void> | void
}

export async function startWireApp(options: WireOptions = {}): Promise<WireApp> {
  const home = await mkdtemp(join(tmpdir(), 'toolwright-test-'))
  const { config } = loadConfig({
    flags: new Map(Object.entries({ home, 'log.level': options.stream ? 'debug' : 'silent', ...options.settings }))
  })
  const log = openMemoryLog()
  const tokens = await AccessTokens.open(log)
  const tickets = new Tickets({
    ttlMs: config.auth.ticketTtlMs,
    maxPerToken: config.auth.maxTicketsPerToken,
    ...(options.clock && { now: options.clock })
  })
  const logger = createLogger(config.log, options.stream ? { stream: options.stream } : {})
  const app: FastifyInstance = fastify(serverOptions(config, logger))
  const addresses = allowAddresses({
    host: config.host,
    listedHosts: config.allowedHosts,
    listedOrigins: config.allowedOrigins
  })
  const scopes = reachOf(options.scopes ?? {})
  await app.register(errors)
  await app.register(healthState)
  await app.register(auth, { addresses, tokens, tickets })
  await app.register(loadShedding, config)
  await app.register(shutdown, config)
  await app.register(body)
  await app.register(validation)
  await app.register(connections, config)
  await app.register(frames)
  await app.register(websocket, config)
  await app.register(healthRoutes)
  await app.register(ticketRoutes, { scopes })
  await app.register(tokenRoutes, { scopes, home })
  await options.routes?.(app)
  await app.listen({ host: '127.0.0.1', port: 0 })
  const { port } = app.server.address() as AddressInfo
  const url = `http://127.0.0.1:${port}`
  const { token: admin } = await tokens.create({ label: 'test', role: 'admin', scope: 'global' })
  onTestFinished(async () => {
    await app.close()
    await log.close()
    await rm(home, { recursive: true, force: true })
  })
  return {
    app,
    log,
    port,
    url,
    admin,
    tokenFor: async (role, scope = 'global') => (await tokens.create({ label: role, role, scope })).token,
    call: (path, { token = admin, json, ...init } = {}) =>
      fetch(`${url}${path}`, {
        ...(json !== undefined && { method: 'POST', body: JSON.stringify(json) }),
        ...init,
        headers: {
          authorization: `Bearer ${token}`,
          ...(json !== undefined && { 'content-type': 'application/json' }),
          ...init.headers
        }
      })
  }
}

function reachOf(parents: Record<string, string>): ScopeReach {
  const exists = (scope: string): boolean => scope === 'global' || Object.hasOwn(parents, scope)
  const isWithin = (scope: string, ancestor: string): boolean => {
    if (!exists(scope)) return false
    return scope === ancestor || (scope !== 'global' && isWithin(parents[scope] as string, ancestor))
  }
  return { isWithin }
}
