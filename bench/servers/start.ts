import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'

/** A server in a process of its own, so that its CPU time can be told from the load's. */
export interface BenchServer {
  readonly name: string
  readonly url: string
  readonly headers: Record<string, string>
  /** Milliseconds of CPU, user and system, of the process so far. */
  cpuMs(): number
  stop(): Promise<void>
}

const root = resolve(import.meta.dirname, '../..')
/** Too short to be struck out of what is stored, which only `policies` measures. */
const token = 'bench'

/** A server on a fresh data directory below `disk`, the built one unless another entry is named; `settings` are configuration. */
export async function startToolwright(
  name: string,
  settings: Record<string, unknown> = {},
  entry = 'dist/server/main.js',
  disk = tmpdir()
): Promise<BenchServer> {
  const home = mkdtempSync(join(disk, 'toolwright-bench-'))
  const config = join(home, 'config.json')
  const plugins = [join(root, 'bench/servers/echo-plugin.js')]
  const calls = { maxConcurrentPerScope: 256 }
  // The load generator goes on with a connection that the server has told it to close.
  const http = { maxRequestsPerSocket: 0 }
  writeFileSync(
    config,
    JSON.stringify({ home: join(home, 'data'), port: 0, plugins, calls, http, log: { level: 'error' }, ...settings })
  )
  const loader = entry.endsWith('.ts') ? ['--import', 'tsx'] : []
  const child = spawn(process.execPath, [...loader, join(root, entry), '--config', config], {
    env: { ...process.env, TOOLWRIGHT_TOKEN: token },
    stdio: ['ignore', 'pipe', 'inherit']
  })
  const url = await firstMatch(child, /listening on (http:\S+)/)
  return server(name, url, { authorization: `Bearer ${token}` }, child, () => rmSync(home, { recursive: true }))
}

export const startBareFastify = (): Promise<BenchServer> => startYardstick('bare Fastify', 'bare-fastify.js')

export const startMcpSdk = (): Promise<BenchServer> => startYardstick('MCP SDK', 'mcp-sdk.js')

async function startYardstick(name: string, file: string): Promise<BenchServer> {
  const child = spawn(process.execPath, [join(root, 'bench/servers', file)], { stdio: ['ignore', 'pipe', 'inherit'] })
  const port = await firstMatch(child, /listening (\d+)/)
  return server(name, `http://127.0.0.1:${port}`, {}, child, () => undefined)
}

function server(
  name: string,
  url: string,
  headers: Record<string, string>,
  child: ChildProcess,
  cleanUp: () => void
): BenchServer {
  return {
    name,
    url,
    headers: { 'content-type': 'application/json', ...headers },
    cpuMs() {
      const fields = readFileSync(`/proc/${child.pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? []
      // Clock ticks are a hundredth of a second on every Linux that Node runs on.
      return (Number(fields[11]) + Number(fields[12])) * 10
    },
    async stop() {
      const exited = new Promise((done) => child.once('exit', done))
      child.kill('SIGTERM')
      await exited
      cleanUp()
    }
  }
}

function firstMatch(child: ChildProcess, pattern: RegExp): Promise<string> {
  return new Promise((done, fail) => {
    let text = ''
    child.stdout?.on('data', (chunk: Buffer) => {
      text += String(chunk)
      const match = pattern.exec(text)
      if (match?.[1] !== undefined) done(match[1])
    })
    child.once('exit', (code) => fail(new Error(`a server ended with ${code} before it listened`)))
  })
}
