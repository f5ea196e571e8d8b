import { realpathSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import closeWithGrace from 'close-with-grace'
import type { FastifyInstance } from 'fastify'
import { buildApp } from './app.ts'
import { adminTokenPlace } from './auth/admin-token.ts'
import type { CodeRuntime } from './code-runtime/code-runtime.ts'
import { configFromArguments, runCommand } from './command-line.ts'
import type { Config } from './config/schema.ts'
import { shellExecutor } from './config/shell-executor.ts'

/**
 * The process (reliability.md §3.4): configuration → app → listen → start-up lines → graceful close. The first SIGTERM or SIGINT
 * drains and exits with 0, a second one exits at once; an uncaught error is logged, takes the same way and exits with 1, and so does
 * a log beyond repair, with 74. A server that does not come up says why and exits with the error's `exitCode`, else 1.
 */
export async function serve(args: readonly string[], env: NodeJS.ProcessEnv): Promise<void> {
  const { config } = configFromArguments(args, env)
  const starting = start(config, () => void endBroken(starting, config))
  const { preStopMs, drainMs, killMs } = config.drain
  const grace = closeWithGrace(
    { delay: preStopMs + drainMs + 2 * killMs + 1_000, logger: toStandardError },
    // A signal may come while the server is starting; it is closed once it is there.
    async ({ err }) => {
      const app = await starting
      if (err) app.log.fatal({ err }, 'an error was caught by nobody')
      else app.log.info('shutting down')
      await app.close()
    }
  )
  try {
    await starting
  } catch (error) {
    grace.uninstall()
    throw error
  }
}

/** Nothing can be stored any more (reliability.md C5): what still runs gets the drain time, then the process ends in any case. */
async function endBroken(starting: Promise<FastifyInstance>, { drain }: Config): Promise<void> {
  setTimeout(() => process.exit(74), drain.drainMs)
  const app = await starting.catch(() => undefined)
  await app?.close().catch(() => undefined)
  process.exit(74)
}

async function start(config: Config, onFatal: () => void): Promise<FastifyInstance> {
  const app = await buildApp(config, { onFatal })
  try {
    app.subprocesses.prepare()
    const address = await app.listen({ host: config.host, port: config.port })
    process.stdout.write(startUpLines(config, address))
    // It opens beside the start, which does not wait for it.
    void app.codeRuntime.then((runtime) => process.stdout.write(programsLine(config, runtime)))
    return app
  } catch (error) {
    await app.close()
    throw error
  }
}

/** What a person needs to get going: the address, where the token is, and one line to paste. */
function startUpLines(config: Config, address: string): string {
  const token = adminTokenPlace(config)
  const executor = shellExecutor(config)
  const tool = executor === 'pwsh-local' ? 'pwsh' : 'bash'
  const call = `{"name":"${tool}","arguments":{"command":"echo hello","description":"Say hello"}}`
  return [
    `Toolwright is listening on ${address}`,
    `The admin token is ${token.text}`,
    ...(executor === 'bash-sandbox'
      ? []
      : [`Shell commands run as this user and are not confined (shell.executor: ${executor})`]),
    `Try: curl -sS -H "Authorization: Bearer ${token.shellWord}" -H 'Content-Type: application/json' -d '${call}' ${address}/invoke`,
    ''
  ].join('\n')
}

/** Programs that share the server's user and see its process may do to it what they like (code-mode.md §15.2). */
function programsLine({ codeRuntime }: Config, runtime: CodeRuntime | undefined): string {
  if (runtime === undefined || runtime.containment.pidNamespace || runtime.containment.ownUser) return ''
  return `Programs run as this user and are not confined (codeRuntime.backend: ${codeRuntime.backend})\n`
}

const toStandardError = {
  error: (...parts: unknown[]): void => void process.stderr.write(`${parts.map(String).join(' ')}\n`)
}

const isEntry = process.argv[1] !== undefined && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)
if (isEntry) await runCommand(() => serve(process.argv.slice(2), process.env))
