import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { performance } from 'node:perf_hooks'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { type WebSocket, WebSocketServer } from 'ws'
import { buildApp } from '../server/app.ts'
import { loadConfig } from '../server/config/load.ts'
import { openMemoryLog } from '../server/event-log/memory-log.ts'
import { median } from './median.ts'

const rounds = Number(process.env['BENCH_ROUNDS'] ?? 3)
const token = 'bench-token'
/** Events of one loop turn: one append of ours. */
const burst = 20
const payload = 'x'.repeat(900)

interface Measured {
  perSecond: number
  cpuMicros: number
}

/** One server under measurement: where clients connect, and how one burst is sent to all of them. */
interface Contender {
  name: string
  url: string
  send(): Promise<void>
  close(): Promise<void>
}

/** Events of 1 KB to many subscribers: ours against `ws` alone that writes one prepared frame for each event to each socket. */
export async function benchFanOut(): Promise<void> {
  console.log(`Fan-out of 1 KB events, ${burst} in a turn (medians, alternated)\n`)
  console.log('subscribers | server     | deliveries/s | CPU µs a delivery')
  for (const [subscribers, bursts] of [
    [1, 1000],
    [100, 100],
    [1000, 15]
  ] as const) {
    const measured = new Map<string, Measured[]>()
    for (let round = 0; round < rounds; round += 1) {
      for (const make of [bareWs, ours]) {
        const contender = await make()
        const all = measured.get(contender.name) ?? []
        all.push(await measure(contender, subscribers, bursts))
        measured.set(contender.name, all)
        await contender.close()
      }
    }
    for (const [name, all] of measured) {
      const perSecond = median(all.map((one) => one.perSecond))
      const micros = median(all.map((one) => one.cpuMicros))
      const cells = [
        String(subscribers).padStart(11),
        name.padEnd(10),
        perSecond.toFixed(0).padStart(12),
        micros.toFixed(2).padStart(17)
      ]
      console.log(cells.join(' | '))
    }
  }
}

async function measure(contender: Contender, subscribers: number, bursts: number): Promise<Measured> {
  const deliveries = subscribers * bursts * burst
  const file = join(import.meta.dirname, 'servers/fan-out-clients.js')
  const args = [file, contender.url, token, String(subscribers), String(bursts * burst)]
  const clients = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] })
  await said(clients, 'open')
  const startedAt = performance.now()
  const cpuBefore = process.cpuUsage()
  const done = said(clients, 'done')
  for (let n = 0; n < bursts; n += 1) await contender.send()
  await done
  const { user, system } = process.cpuUsage(cpuBefore)
  const seconds = (performance.now() - startedAt) / 1000
  clients.kill()
  return { perSecond: deliveries / seconds, cpuMicros: (user + system) / deliveries }
}

function said(child: ChildProcess, word: string): Promise<void> {
  return new Promise((resolve) => {
    child.stdout?.on('data', (chunk: Buffer) => {
      if (chunk.toString().includes(word)) resolve()
    })
  })
}

async function bareWs(): Promise<Contender> {
  const http = createServer()
  const server = new WebSocketServer({ server: http, perMessageDeflate: false })
  server.on('connection', (socket) => {
    socket.once('message', () => socket.send('{"type":"subscribed","id":"x"}'))
  })
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve))
  const text = JSON.stringify({ type: 'event', id: 'x', event: { type: 'note', data: payload } })
  // A text frame with a length of 16 bits.
  const frame = Buffer.concat([Buffer.from([0x81, 126, text.length >> 8, text.length & 255]), Buffer.from(text)])
  return {
    name: 'bare ws',
    url: `ws://127.0.0.1:${(http.address() as AddressInfo).port}`,
    async send() {
      for (let n = 0; n < burst; n += 1) {
        for (const client of server.clients) rawOf(client).write(frame)
      }
      await nextTurn()
    },
    async close() {
      for (const client of server.clients) client.terminate()
      http.close()
    }
  }
}

const rawOf = (socket: WebSocket): Socket => (socket as unknown as { _socket: Socket })._socket

async function ours(): Promise<Contender> {
  const home = mkdtempSync(join(tmpdir(), 'toolwright-bench-'))
  const flags = {
    home,
    'log.level': 'silent',
    'ws.maxSockets': '5000',
    'ws.maxSocketsPerToken': '5000',
    'auth.token': token
  }
  const log = openMemoryLog()
  const app = await buildApp(loadConfig({ flags: new Map(Object.entries(flags)) }).config, { log })
  await app.listen({ host: '127.0.0.1', port: 0 })
  await log.append({ writes: [{ table: 'sessions', op: 'insert', row: { id: 's', scope: 'global', created_at: 1 } }] })
  const events = Array.from({ length: burst }, () => ({ type: 'note', data: payload }))
  return {
    name: 'Toolwright',
    url: `ws://127.0.0.1:${(app.server.address() as AddressInfo).port}/events`,
    async send() {
      await log.append({ session: 's', events })
      await nextTurn()
    },
    async close() {
      await app.close()
      rmSync(home, { recursive: true })
    }
  }
}
