import { mkdtempSync, readFileSync, realpathSync, rmSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { finished } from 'node:stream/promises'
import { buildApp } from '../../server/app.ts'
import type { Role } from '../../server/auth/principal.ts'
import { runCommandLine } from '../../server/commands/run.ts'
import { loadConfig } from '../../server/config/load.ts'
import { TestApp } from './app.ts'
import type { ServedApp } from './served-app.ts'

/** The whole server for all tests of a file, and the command line on it. */
export class CommandServer {
  readonly home = realpathSync(mkdtempSync(join(tmpdir(), 'toolwright-test-')))
  app!: TestApp
  port = 0
  readonly #settings: Record<string, string>

  private constructor(settings: Record<string, string>) {
    this.#settings = settings
  }

  static async start(settings: Record<string, string> = {}): Promise<CommandServer> {
    const server = new CommandServer(settings)
    await server.open()
    return server
  }

  /** Again on the same port and home after `close`. */
  async open(): Promise<void> {
    const flags = { home: this.home, 'log.level': 'silent', 'codeRuntime.backend': 'off', ...this.#settings }
    const app = await buildApp(loadConfig({ flags: new Map(Object.entries(flags)) }).config)
    await app.listen({ host: '127.0.0.1', port: this.port })
    this.port = (app.server.address() as AddressInfo).port
    const call: ServedApp['call'] = (path, { json, headers } = {}) =>
      fetch(`${this.url}${path}`, {
        method: json === undefined ? 'GET' : 'POST',
        headers: {
          authorization: `Bearer ${this.admin}`,
          ...(json !== undefined && { 'content-type': 'application/json' }),
          ...headers
        },
        ...(json !== undefined && { body: JSON.stringify(json) })
      })
    this.app = new TestApp({ app, call } as ServedApp)
  }

  async close(): Promise<void> {
    await this.app.app.close()
  }

  async end(): Promise<void> {
    await this.close()
    rmSync(this.home, { recursive: true, force: true })
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`
  }

  get admin(): string {
    return readFileSync(join(this.home, 'admin-token'), 'utf8').trim()
  }

  /** What a process needs to find the server. */
  get env(): Record<string, string> {
    return { PATH: process.env['PATH'] ?? '', TOOLWRIGHT_URL: this.url, TOOLWRIGHT_HOME: this.home }
  }

  async tokenFor(role: Role, scope = 'global'): Promise<string> {
    return (await this.app.app.tokens.create({ label: role, role, scope })).token
  }

  /** Runs a command as the admin unless told. */
  toolwright(words: readonly string[], more: RunOptions = {}): Promise<Ran> {
    return toolwright(words, { ...more, env: { ...this.env, ...more.env } })
  }
}

export interface RunOptions {
  env?: NodeJS.ProcessEnv
  /** Standard output and error are a terminal of so many columns. */
  columns?: number
  /** Gets standard error as it is written. */
  onStderr?: (text: string) => void
}

export interface Ran {
  exitCode: number
  stdout: string
  stderr: string
}

/** Runs a command in this process, which is much quicker than to start one; errors become exit codes as `runCommand` makes them. */
export async function toolwright(
  words: readonly string[],
  { env = {}, columns, onStderr }: RunOptions = {}
): Promise<Ran> {
  const open = (onText?: (text: string) => void) => {
    const stream = Object.assign(
      new PassThrough({ highWaterMark: 1 << 30 }),
      columns === undefined ? {} : { isTTY: true, columns }
    )
    const chunks: Buffer[] = []
    stream.on('data', (chunk: Buffer) => {
      chunks.push(chunk)
      onText?.(String(chunk))
    })
    const end = async (): Promise<string> => {
      stream.end()
      await finished(stream)
      return Buffer.concat(chunks).toString()
    }
    return { stream, end }
  }
  const [out, err] = [open(), open(onStderr)]
  let exitCode: number
  try {
    exitCode = await runCommandLine(words, { env, stdout: out.stream, stderr: err.stream })
  } catch (error) {
    const failure = error as Error & { exitCode?: number }
    err.stream.write(`toolwright: ${failure.message}\n`)
    exitCode = failure.exitCode ?? 1
  }
  return { exitCode, stdout: await out.end(), stderr: await err.end() }
}
