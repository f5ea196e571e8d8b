import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import type { Answer } from './app.ts'
import { built } from './built.ts'

const token = 'a-token-of-the-test'

/** The built server in a process of its own, on a home that outlives it; ended by the signal that the test names. */
export class RunningServer {
  readonly #child: ChildProcess
  readonly url: string

  private constructor(child: ChildProcess, url: string) {
    this.#child = child
    this.url = url
  }

  /** `env` is put over the environment of the test; `launcher` is a command line that starts the server's. */
  static async start(
    home: string,
    settings: Record<string, unknown> = {},
    { env = {}, launcher = [] }: { env?: Record<string, string>; launcher?: readonly string[] } = {}
  ): Promise<RunningServer> {
    const config = join(home, 'config.json')
    // Programs and the reserve of a full disk are for the tests that need them: both take time of each start.
    const spare = { codeRuntime: { backend: 'off' }, store: { ballastBytes: 0 } }
    const own = { home: join(home, 'data'), port: 0, log: { level: 'error' }, ...spare, ...settings }
    writeFileSync(config, JSON.stringify(own))
    const command = [process.execPath, built.main, '--config', config]
    const [program = '', ...args] = [...launcher, ...command]
    const child = spawn(program, args, {
      env: { ...process.env, ...env, TOOLWRIGHT_TOKEN: token },
      stdio: ['ignore', 'pipe', 'inherit']
    })
    onTestFinished(() => void child.kill('SIGKILL'))
    let output = ''
    const url = await new Promise<string>((done, fail) => {
      child.once('exit', (code) => fail(new Error(`the server ended with ${code} before it listened`)))
      child.stdout?.on('data', (chunk: Buffer) => {
        output += String(chunk)
        const match = /listening on (http:\S+)/.exec(output)
        if (match?.[1] !== undefined) done(match[1])
      })
    })
    return new RunningServer(child, url)
  }

  get pid(): number {
    return this.#child.pid as number
  }

  /** A POST of JSON when `json` is given, else a GET, unless `more` names another method; its `signal` drops the connection. */
  async request(path: string, json?: unknown, more: { method?: string; signal?: AbortSignal } = {}): Promise<Answer> {
    const response = await fetch(`${this.url}${path}`, {
      method: json === undefined ? 'GET' : 'POST',
      ...more,
      headers: {
        authorization: `Bearer ${token}`,
        ...(json === undefined ? {} : { 'content-type': 'application/json' })
      },
      ...(json === undefined ? {} : { body: JSON.stringify(json) })
    })
    return { status: response.status, headers: response.headers, body: await response.json() }
  }

  /** Ends the process by a signal and gives its exit code, null when the signal killed it. */
  async end(signal: 'SIGKILL' | 'SIGTERM'): Promise<number | null> {
    const exited = once(this.#child, 'exit')
    this.#child.kill(signal)
    const [code] = await exited
    return code as number | null
  }
}
