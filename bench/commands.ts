import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join, resolve } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { rgPath } from '@vscode/ripgrep'
import { execa } from 'execa'
import { median } from './median.ts'
import { type BenchServer, startToolwright } from './servers/start.ts'

const runs = Number(process.env['BENCH_RUNS'] ?? 100)
const seconds = Number(process.env['BENCH_SECONDS'] ?? 5)
const perSecond = 20
/** What is started: the built server, or its source. */
const entry = process.env['BENCH_ENTRY'] ?? 'dist/server/main.js'
const repository = resolve(import.meta.dirname, '..')
const pattern = 'monitorEventLoopDelay'

type Call = (name: string, args: object, session?: string) => Promise<any>

/** What the main loop was held up, in milliseconds. */
interface Delay {
  p50: number
  p99: number
  max: number
}

/** Commands over HTTP against the same without a server, terminals, and what commands do to the server's main loop. */
export async function benchCommands(): Promise<void> {
  const plugins = [join(import.meta.dirname, 'servers/loop-delay-plugin.js')]
  const settings = { plugins, shell: { executor: 'bash-local' }, codeRuntime: { backend: 'off' } }
  const server = await startToolwright('commands', settings, entry)
  try {
    const call = caller(server)
    console.log(`Commands (${runs} runs of each, alternated)\n`)
    await alternate({
      'bash `true` over HTTP': () => call('bash', { command: 'true', description: 'bench' }),
      'execa alone': () => execa('bash', ['-c', 'true']),
      'child_process alone': () => runBare('bash', ['-c', 'true'])
    })
    console.log('\na search of this repository\n')
    await alternate({
      'grep over HTTP': () => call('grep', { pattern, path: repository }),
      'rg alone': () => runBare(rgPath, ['--no-config', '--json', `--regexp=${pattern}`, '--', repository])
    })
    console.log('\na line typed into a terminal, until the next prompt\n')
    const { sessionId } = await call('terminal_open', { type: 'shell' })
    await alternate({ 'terminal round trip': () => call('terminal_send', { sessionId, text: 'echo hi' }) })
    await call('terminal_close', { sessionId })
    await startMany(call)
    await flood(server, call)
  } finally {
    await server.stop()
  }
}

async function startMany(call: Call): Promise<void> {
  console.log(`\nwhile ${perSecond} commands a second start (${seconds} s)\n`)
  const idle = await delayWhile(call, async () => {})
  // A session each: the commands of one would wait for each other.
  const busy = await delayWhile(call, (n) => call('bash', { command: 'true', description: 'bench' }, `many-${n}`))
  showDelays([
    ['nothing', idle],
    [`${perSecond} a second`, busy]
  ])
}

async function delayWhile(call: Call, start: (n: number) => Promise<unknown>): Promise<Delay> {
  await call('loop_delay', {})
  const begin = performance.now()
  const started: Promise<unknown>[] = []
  for (let n = 0; n < perSecond * seconds; n += 1) {
    started.push(start(n))
    await wait(Math.max(0, begin + ((n + 1) * 1000) / perSecond - performance.now()))
  }
  await Promise.all(started)
  return call('loop_delay', {})
}

/** How long the server takes over a trivial request while a command writes as fast as it can. */
async function flood(server: BenchServer, call: Call): Promise<void> {
  console.log('\nwhile a command writes 1 GiB\n')
  await call('loop_delay', {})
  const probes: number[] = []
  const startedAt = performance.now()
  let isDone = false
  const written = call('bash', { command: 'yes | head -c 1G', description: 'bench' }).finally(() => (isDone = true))
  while (!isDone) {
    const at = performance.now()
    await (await fetch(`${server.url}/health/live`)).text()
    probes.push(performance.now() - at)
    await wait(10)
  }
  await written
  show(new Map([['GET /health/live', probes]]))
  console.log(`it took ${((performance.now() - startedAt) / 1000).toFixed(1)} s`)
  showDelays([['main loop', await call('loop_delay', {})]])
}

function caller({ url, headers }: BenchServer): Call {
  return async (name, args, session = 'bench') => {
    const body = JSON.stringify({ session, name, arguments: args })
    const response = await fetch(`${url}/invoke`, { method: 'POST', headers, body })
    const answer = (await response.json()) as { value?: unknown }
    if (answer.value === undefined) throw new Error(`${name}: ${response.status} ${JSON.stringify(answer)}`)
    return answer.value
  }
}

/** Runs each in turn, so that a busy machine meets all alike. */
async function alternate(ways: Record<string, () => Promise<unknown>>): Promise<void> {
  const measured = new Map<string, number[]>(Object.keys(ways).map((name) => [name, []]))
  for (const way of Object.values(ways)) await way()
  for (let n = 0; n < runs; n += 1) {
    for (const [name, way] of Object.entries(ways)) {
      const at = performance.now()
      await way()
      measured.get(name)?.push(performance.now() - at)
    }
  }
  show(measured)
}

function show(measured: ReadonlyMap<string, readonly number[]>): void {
  console.log('what                  | p50 ms | p99 ms')
  for (const [name, all] of measured) {
    const sorted = all.toSorted((a, b) => a - b)
    const p99 = sorted[Math.floor(sorted.length * 0.99)] ?? Number.NaN
    console.log([name.padEnd(21), median(all).toFixed(1).padStart(6), p99.toFixed(1).padStart(6)].join(' | '))
  }
}

function showDelays(delays: readonly (readonly [string, Delay])[]): void {
  // A loop that does nothing shows the 1 ms at which it is looked at.
  console.log('loop delay            | p50 ms | p99 ms | max ms')
  for (const [name, { p50, p99, max }] of delays) {
    console.log([name.padEnd(21), ...[p50, p99, max].map((ms) => ms.toFixed(1).padStart(6))].join(' | '))
  }
}

/** Runs a program to its end with plain `child_process`, reading what it writes. */
async function runBare(file: string, args: readonly string[]): Promise<void> {
  const child = spawn(file, args, { stdio: ['ignore', 'pipe', 'pipe'] })
  child.stdout.resume()
  child.stderr.resume()
  await once(child, 'close')
}
