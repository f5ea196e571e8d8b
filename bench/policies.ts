import { compare, invokeEcho } from './http-load.ts'
import { startToolwright } from './servers/start.ts'

/** Rules that are all looked at, and let the call through. */
const rules = Array.from({ length: 20 }, (_, index) => ({
  name: `rule-${index}`,
  tools: `other_${index}_*`,
  decision: 'deny'
}))

const rates = [{ requests: 1_000_000, perMs: 1_000, burst: 1_000_000 }]
const limits = {
  perScope: { rates },
  tools: { echo: { concurrency: 256, rates } },
  perToken: { concurrency: 256, rates }
}

/** What metrics, limits of all kinds, 20 permission rules and redaction cost `POST /invoke` together. */
export async function benchPolicies(): Promise<void> {
  process.env['BENCH_SECRET'] = 'nobody-says-this'
  const servers = [
    await startToolwright('without', { metrics: { enabled: false } }),
    await startToolwright('with all', { permissions: { rules }, limits, secrets: { environment: ['BENCH_SECRET'] } })
  ]
  try {
    for (const server of servers) await invokeEcho(server, 16)
    console.log('POST /invoke of a no-op tool (medians): metrics, limits, 20 rules and redaction\n')
    await compare(servers, [64], invokeEcho)
  } finally {
    for (const server of servers) await server.stop()
  }
}
