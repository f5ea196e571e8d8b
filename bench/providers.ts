import { once } from 'node:events'
import { WebSocket } from 'ws'
import { postsTo } from './http-load.ts'
import { type BenchServer, startToolwright } from './servers/start.ts'

const sockets = 100
const toolsEach = 10

async function provide({ url, headers }: BenchServer, index: number): Promise<WebSocket> {
  const socket = new WebSocket(`${url.replace('http', 'ws')}/events`, 'toolwright.v1', { headers })
  await once(socket, 'open')
  const provided = once(socket, 'message')
  const tools = Array.from({ length: toolsEach }, (_, tool) => ({
    name: `echo_${index}_${tool}`,
    description: 'Gives its text back.',
    parameters: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
    concurrency: 'parallel'
  }))
  socket.send(JSON.stringify({ type: 'provide', id: 'a', providerId: `provider-${index}`, tools }))
  const [answer] = (await provided) as [Buffer]
  if (!answer.toString().includes('"provided"')) throw new Error(answer.toString())
  socket.on('message', (data: Buffer) => {
    const frame = JSON.parse(data.toString()) as { type: string; dispatchId: string; arguments: { text: string } }
    if (frame.type !== 'call') return
    socket.send(JSON.stringify({ type: 'call/result', dispatchId: frame.dispatchId, value: frame.arguments.text }))
  })
  return socket
}

/** 1,000 client tools from 100 sockets: how long they take to be there, and calls spread over all of them. */
export async function benchProviders(): Promise<void> {
  const server = await startToolwright('providers', {
    providers: { maxPerToken: sockets },
    tools: { maxPerScope: sockets * toolsEach },
    ws: { maxSocketsPerToken: sockets + 10 }
  })
  const open: WebSocket[] = []
  try {
    const begun = performance.now()
    for (let index = 0; index < sockets; index += 1) open.push(await provide(server, index))
    const perTool = (performance.now() - begun) / (sockets * toolsEach)
    const requests = Array.from({ length: sockets * toolsEach }, (_, index) => ({
      body: JSON.stringify({
        name: `echo_${index % sockets}_${Math.floor(index / sockets)}`,
        arguments: { text: 'hello' }
      })
    }))
    const { perSecond, p50, p99, cpuMicroseconds } = await postsTo(server, {
      path: '/invoke',
      requests,
      connections: 64
    })
    console.log(
      `${sockets * toolsEach} client tools from ${sockets} sockets: ${perTool.toFixed(1)} ms each to register`
    )
    const cpu = cpuMicroseconds.toFixed(0)
    console.log(`calls at 64 connections: ${perSecond.toFixed(0)}/s, p50 ${p50} ms, p99 ${p99} ms, CPU ${cpu} µs each`)
  } finally {
    for (const socket of open) socket.terminate()
    await server.stop()
  }
}
