import { mkdir } from 'node:fs/promises'
import Fastify, { type FastifyInstance } from 'fastify'
import type { DestinationStream } from 'pino'
import { approvals } from '../plugins/engine/approvals.ts'
import { auth } from '../plugins/engine/auth.ts'
import { backends } from '../plugins/engine/backends.ts'
import { body } from '../plugins/engine/body.ts'
import { calls } from '../plugins/engine/calls.ts'
import { codeRuntime } from '../plugins/engine/code-runtime.ts'
import { connections } from '../plugins/engine/connections.ts'
import { definitionPins } from '../plugins/engine/definition-pins.ts'
import { errors } from '../plugins/engine/errors.ts'
import { eventLog } from '../plugins/engine/event-log.ts'
import { events } from '../plugins/engine/events.ts'
import { frames } from '../plugins/engine/frames.ts'
import { healthState } from '../plugins/engine/health-state.ts'
import { httpTools } from '../plugins/engine/http-tools.ts'
import { jobs } from '../plugins/engine/jobs.ts'
import { limits } from '../plugins/engine/limits.ts'
import { loadShedding } from '../plugins/engine/load-shedding.ts'
import { createLogger } from '../plugins/engine/logging.ts'
import { mcpBridge } from '../plugins/engine/mcp-bridge.ts'
import { mcpEndpoint } from '../plugins/engine/mcp-endpoint.ts'
import { metrics } from '../plugins/engine/metrics.ts'
import { operatorPlugins } from '../plugins/engine/operator-plugins.ts'
import { providers } from '../plugins/engine/providers.ts'
import { registrations } from '../plugins/engine/registrations.ts'
import { retention } from '../plugins/engine/retention.ts'
import { sandbox } from '../plugins/engine/sandbox.ts'
import { serverOptions } from '../plugins/engine/server-options.ts'
import { shutdown } from '../plugins/engine/shutdown.ts'
import { terminals } from '../plugins/engine/terminals.ts'
import { toolImports } from '../plugins/engine/tool-imports.ts'
import { tools } from '../plugins/engine/tools.ts'
import { tracing } from '../plugins/engine/tracing.ts'
import { validation } from '../plugins/engine/validation.ts'
import { web } from '../plugins/engine/web.ts'
import { websocket } from '../plugins/engine/websocket.ts'
import { wireSchemas } from '../plugins/engine/wire-schemas.ts'
import { wireTools } from '../plugins/engine/wire-tools.ts'
import { permissions } from '../plugins/policies/permissions.ts'
import { Permissions } from '../plugins/policies/permissions-rules.ts'
import { repeatToolReminder } from '../plugins/policies/repeat-tool-reminder.ts'
import { spill } from '../plugins/policies/spill.ts'
import { timeout } from '../plugins/policies/timeout.ts'
import askUser from '../plugins/tools/ask-user.ts'
import bash from '../plugins/tools/bash.ts'
import edit from '../plugins/tools/edit.ts'
import glob from '../plugins/tools/glob.ts'
import grep from '../plugins/tools/grep.ts'
import jobToolPlugin from '../plugins/tools/jobs.ts'
import pwsh from '../plugins/tools/pwsh.ts'
import read from '../plugins/tools/read.ts'
import strReplaceEditor from '../plugins/tools/str-replace-editor.ts'
import terminalToolPlugin from '../plugins/tools/terminal.ts'
import todo from '../plugins/tools/todo.ts'
import webFetch from '../plugins/tools/web-fetch.ts'
import webSearch from '../plugins/tools/web-search.ts'
import write from '../plugins/tools/write.ts'
import { approvalRoutes } from '../routes/approvals.ts'
import { batchRoutes } from '../routes/batch.ts'
import { callFrames } from '../routes/call-frames.ts'
import { callRoutes } from '../routes/calls.ts'
import { capabilityRoutes } from '../routes/capabilities.ts'
import { eventRoutes } from '../routes/events.ts'
import { healthRoutes } from '../routes/health.ts'
import { invokeRoutes } from '../routes/invoke.ts'
import { mcpServerRoutes } from '../routes/mcp-servers.ts'
import { mcpRoutes } from '../routes/mcp.ts'
import { metricsRoutes } from '../routes/metrics.ts'
import { permissionRoutes } from '../routes/permissions.ts'
import { jobRoutes } from '../routes/jobs.ts'
import { limitRoutes } from '../routes/limits.ts'
import { promptRoutes } from '../routes/prompt.ts'
import { providerFrames } from '../routes/provider-frames.ts'
import { scopeRoutes } from '../routes/scopes.ts'
import { sessionRoutes } from '../routes/sessions.ts'
import { terminalRoutes } from '../routes/terminals.ts'
import { ticketRoutes } from '../routes/tickets.ts'
import { tokenRoutes } from '../routes/tokens.ts'
import { toolImportRoutes } from '../routes/tools-import.ts'
import { toolPinRoutes } from '../routes/tool-pins.ts'
import { toolRoutes } from '../routes/tools.ts'
import { turnRoutes } from '../routes/turns.ts'
import { ensureAdminToken, readPresetToken, settleAdminToken } from './auth/admin-token.ts'
import { allowAddresses } from './auth/addresses.ts'
import { Tickets } from './auth/tickets.ts'
import { AccessTokens } from './auth/tokens.ts'
import type { Config } from './config/schema.ts'
import { namedSecrets } from './config/named-secrets.ts'
import { shellExecutor } from './config/shell-executor.ts'
import type { EventLog } from './event-log/event-log.ts'
import { openSqliteLog, SqliteLog } from './event-log/sqlite/log.ts'
import { type StrikeOut, strikeOut as strikeOutOf } from './json/strike-out.ts'

/** What a test, or the script that writes the API description, adds. */
export interface AppOptions {
  logStream?: DestinationStream
  /** Runs before anything that adds a route. */
  first?: (app: FastifyInstance) => Promise<void>
  /** Instead of the durable log, and without retention. */
  log?: EventLog
  /** The log is beyond repair: the process should exit with 74. */
  onFatal?: (error: Error) => void
}

/** The composition root: every plugin and route, in order. Rejects with what did not come up, and leaves nothing open then. */
export async function buildApp(config: Config, options: AppOptions = {}): Promise<FastifyInstance> {
  const rules = new Permissions(config.permissions)
  const preset = await readPresetToken(config)
  const secrets = namedSecrets(config, process.env, preset)
  const strikeOut = secrets.length === 0 ? undefined : strikeOutOf(secrets)
  await mkdir(config.home, { recursive: true, mode: 0o700 })
  const logger = createLogger(config.log, {
    strikeOut,
    ...(options.logStream === undefined ? {} : { stream: options.logStream })
  })
  const log =
    options.log ??
    (await openSqliteLog({
      directory: config.home,
      synchronous: config.store.synchronous,
      ballastBytes: config.store.ballastBytes,
      strikeOut,
      onWarning: (message, details) => logger.warn(details, message),
      onFatal: (error) => {
        logger.fatal({ err: error }, 'the event log is beyond repair')
        options.onFatal?.(error)
      }
    }))
  const app = Fastify(serverOptions(config, logger))
  try {
    const tokens = await AccessTokens.open(log, preset === undefined ? {} : { preset })
    await settleAdminToken(tokens, config)
    await ensureAdminToken(tokens, config)
    await compose(app, config, { ...options, log, tokens, rules, strikeOut })
    await app.ready()
    await app.mcpBridge.whenStarted()
    return app
  } catch (error) {
    await app.close()
    await log.close()
    throw error
  }
}

type Parts = AppOptions & { log: EventLog; tokens: AccessTokens; rules: Permissions; strikeOut: StrikeOut | undefined }

async function compose(
  app: FastifyInstance,
  config: Config,
  { log, tokens, rules, first, strikeOut }: Parts
): Promise<void> {
  // The edge: what every request meets, in this order.
  await first?.(app)
  await app.register(errors)
  await app.register(healthState)
  await app.register(eventLog, { log })
  await app.register(loadShedding, config)
  await app.register(auth, {
    tokens,
    tickets: new Tickets({ ttlMs: config.auth.ticketTtlMs, maxPerToken: config.auth.maxTicketsPerToken }),
    addresses: allowAddresses({
      host: config.host,
      listedHosts: config.allowedHosts,
      listedOrigins: config.allowedOrigins
    })
  })
  await app.register(shutdown, config)
  await app.register(validation)
  await app.register(body)
  await app.register(connections, config)
  await app.register(frames)
  await app.register(websocket, config)

  // The engine, and what hangs on it. Policies come first, so that tools of the same scope are inside them.
  await app.register(wireSchemas)
  await app.register(tools, config)
  await app.register(tracing, config)
  await app.register(backends, { config })
  await app.register(events, { strikeOut })
  await app.register(calls, { ...config, strikeOut })
  await app.register(terminals, config)
  await app.register(jobs, config)
  await app.register(approvals, {
    ...config,
    policyVersionOf: ({ chain }) => rules.policyVersionOf(chain.map(({ id }) => id))
  })
  await app.register(sandbox, config)
  await app.register(web, config)
  await app.register(codeRuntime, config)
  await app.register(permissions, { permissions: rules })
  await app.register(timeout)
  await app.register(repeatToolReminder, config.repeatReminder)
  await app.register(spill, {
    ...config.spill,
    store: app.spill,
    warn: (message, details) => app.log.warn(details, message)
  })
  // Where commands are to be confined and cannot be, there is none (backends.md §11.2).
  if (app.hasDecorator('shell')) {
    await app.register(shellExecutor(config) === 'pwsh-local' ? pwsh : bash, config.jobs)
    await app.register(terminalToolPlugin, { ...config.jobs, ...config.terminals })
  }
  await app.register(jobToolPlugin, config.jobs)
  await app.register(read)
  await app.register(write)
  await app.register(edit)
  await app.register(strReplaceEditor)
  await app.register(glob, config.search)
  await app.register(grep)
  await app.register(todo, config.todo)
  await app.register(askUser)
  await app.register(webFetch)
  await app.register(webSearch, config.web)
  await app.register(operatorPlugins, config)
  await app.register(providers, config)
  await app.register(definitionPins)
  // After the plugins: what clients registered comes back among what those make.
  await app.register(registrations, config)
  await app.register(limits, config)
  if (config.metrics.enabled) await app.register(metrics, config)
  await app.register(httpTools, config)
  await app.register(wireTools, config)
  await app.register(toolImports)
  await app.register(mcpBridge, config)
  await app.register(mcpEndpoint, { ...config, sections: app.promptSections })
  if (log instanceof SqliteLog) await app.register(retention, { log, store: config.store })

  // The wire.
  const reach = {
    isWithin: (scope: string, ancestor: string): boolean => {
      const above = app.scopes.get(ancestor)
      return above !== undefined && app.scopes.get(scope)?.isWithin(above) === true
    }
  }
  await app.register(healthRoutes)
  await app.register(capabilityRoutes, config)
  if (config.metrics.enabled) await app.register(metricsRoutes, config)
  await app.register(ticketRoutes, { scopes: reach })
  await app.register(tokenRoutes, { ...config, scopes: reach })
  await app.register(toolRoutes)
  await app.register(toolImportRoutes)
  await app.register(scopeRoutes)
  await app.register(limitRoutes, config)
  await app.register(promptRoutes, { ...config, sections: app.promptSections })
  await app.register(mcpServerRoutes, config)
  await app.register(toolPinRoutes)
  await app.register(mcpRoutes)
  await app.register(invokeRoutes)
  await app.register(batchRoutes)
  await app.register(callRoutes)
  await app.register(callFrames)
  await app.register(providerFrames, config)
  await app.register(approvalRoutes)
  await app.register(jobRoutes)
  await app.register(terminalRoutes, config)
  await app.register(permissionRoutes)
  await app.register(sessionRoutes, config)
  await app.register(turnRoutes)
  await app.register(eventRoutes)
}
