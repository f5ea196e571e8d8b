import { compare, invokeEcho } from './http-load.ts'
import { startBareFastify, startToolwright } from './servers/start.ts'

/** `POST /invoke` of a no-op tool: with each kind of log, and the bare route as the yardstick. */
export async function benchInvoke(): Promise<void> {
  const servers = [
    await startBareFastify(),
    await startToolwright('log full'),
    await startToolwright('log normal', { store: { synchronous: 'normal' } }),
    await startToolwright('log in memory', {}, 'bench/servers/memory-log.ts')
  ]
  try {
    for (const server of servers) await invokeEcho(server, 16, 2)
    console.log('POST /invoke of a no-op tool (medians; ratios are to bare Fastify in the same run)\n')
    await compare(servers, [1, 16, 64], invokeEcho)
  } finally {
    for (const server of servers) await server.stop()
  }
}
