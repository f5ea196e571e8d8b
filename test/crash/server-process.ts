import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'

const root = resolve(import.meta.dirname, '../..')
export const token = 'crash-token'

export interface StartOptions {
  /** Directory of all state; its parent holds the configuration and the witness's file. */
  home: string
  env?: Record<string, string>
  settings?: Record<string, unknown>
  /** What the server is started by; it must leave the server as its direct child, or become it. */
  wrapper?: readonly string[]
}

/** The server answered what it must not. */
export class Wrong extends Error {}

/** A process of the kernel's table that is the same as long as its start is. */
interface Process {
  pid: number
  start: string
}

/** The file in which the witness tools leave a line for each body. */
export const bodiesFile = (home: string): string => `${home}.bodies`

/** The built server in a process of its own, to be killed. */
export class ServerProcess {
  readonly url: string
  readonly #child: ChildProcess
  readonly #exited: Promise<unknown>

  private constructor(child: ChildProcess, exited: Promise<unknown>, url: string) {
    this.#child = child
    this.#exited = exited
    this.url = url
  }

  /** Resolves once it listens; rejects with what it said when it ends before. */
  static async start(options: StartOptions): Promise<ServerProcess> {
    const { child, exited } = launch(options)
    let said = ''
    const listening = new Promise<string>((found) => {
      child.stdout?.on('data', (chunk: Buffer) => {
        said += chunk.toString()
        const url = /listening on (http:\S+)/.exec(said)?.[1]
        if (url !== undefined) found(url)
      })
    })
    child.stderr?.on('data', (chunk: Buffer) => (said += chunk.toString()))
    const url = await Promise.race([listening, exited.then(() => undefined)])
    if (url === undefined) throw new Error(`the server ended with ${await exited} before it listened: ${said}`)
    return new ServerProcess(child, exited, url)
  }

  /** Starts a server that is expected to die by itself; gives the signal or the exit code with which it did. */
  static async startDoomed(options: StartOptions): Promise<number | string> {
    const [code, signal] = (await launch(options).exited) as [number | null, string | null]
    return signal ?? code ?? 0
  }

  get pid(): number {
    return this.#child.pid ?? 0
  }

  get exited(): Promise<unknown> {
    return this.#exited
  }

  /** SIGKILL. Gives the processes that it started and that lived when it died. */
  async kill(): Promise<Process[]> {
    const family = descendantsOf(this.#child.pid ?? 0)
    this.#child.kill('SIGKILL')
    await this.#exited
    return family
  }

  async stop(): Promise<void> {
    this.#child.kill('SIGTERM')
    await this.#exited
  }

  async request(
    method: string,
    path: string,
    json?: unknown,
    more: { signal?: AbortSignal } = {}
  ): Promise<{ status: number; body: any }> {
    const answer = await fetch(this.url + path, {
      ...more,
      method,
      headers: {
        authorization: `Bearer ${token}`,
        ...(json === undefined ? {} : { 'content-type': 'application/json' })
      },
      ...(json === undefined ? {} : { body: JSON.stringify(json) })
    })
    const text = await answer.text()
    return { status: answer.status, body: text === '' ? null : JSON.parse(text) }
  }
}

function launch({ home, env = {}, settings = {}, wrapper = [] }: StartOptions): {
  child: ChildProcess
  exited: Promise<unknown>
} {
  const config = `${home}.config.json`
  const plugins = [join(import.meta.dirname, 'witness-plugin.js')]
  const store = { ballastBytes: 0 }
  writeFileSync(
    config,
    JSON.stringify({
      home,
      port: 0,
      plugins,
      log: { level: 'error' },
      presentation: { mode: 'both' },
      store,
      ...settings
    })
  )
  const [command, ...args] = [...wrapper, process.execPath, join(root, 'dist/server/main.js'), '--config', config]
  const child = spawn(command, args, {
    env: { ...process.env, TOOLWRIGHT_TOKEN: token, CRASH_BODIES: bodiesFile(home), ...env },
    stdio: ['ignore', 'pipe', 'pipe']
  })
  return { child, exited: once(child, 'exit') }
}

/** Those of the processes that still live. */
export function alive(processes: readonly Process[]): Process[] {
  const now = new Map(table().map(({ pid, start, state }) => [pid, { start, state }]))
  return processes.filter(({ pid, start }) => now.get(pid)?.start === start && now.get(pid)?.state !== 'Z')
}

/** Everything that a process has started, and what that has. */
export function descendantsOf(root: number): Process[] {
  const rows = table()
  const family = new Set([root])
  for (let before = 0; before < family.size;) {
    before = family.size
    for (const { pid, parent } of rows) if (family.has(parent)) family.add(pid)
  }
  return rows.filter(({ pid }) => pid !== root && family.has(pid)).map(({ pid, start }) => ({ pid, start }))
}

function table(): (Process & { parent: number; state: string })[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        const stat = readFileSync(`/proc/${name}/stat`, 'latin1')
        const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
        return [{ pid: Number(name), state: fields[0] ?? '', parent: Number(fields[1]), start: fields[19] ?? '' }]
      } catch {
        // It ended while we looked.
        return []
      }
    })
}
