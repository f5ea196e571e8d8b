import { onTestFinished } from 'vitest'
import { AddressGuard } from '../../server/backends/web/address-guard.ts'
import type { WireCall } from '../../server/executors/executor.ts'
import { HttpExecutor } from '../../server/executors/http-executor.ts'
import { HttpToolClient, type HttpToolLimits } from '../../server/executors/http-executor-client.ts'

/** A client that may reach this machine, closed when the test is over. */
export function httpToolClient(more: Partial<HttpToolLimits> = {}): HttpToolClient {
  const client = new HttpToolClient({
    guard: new AddressGuard({ allow: ['127.0.0.1'], ports: [] }),
    allowHosts: [],
    timeoutMs: 60_000,
    connectTimeoutMs: 10_000,
    maxAnswerBytes: 100_000,
    maxConnections: 8,
    maxRetries: 2,
    ...more
  })
  onTestFinished(() => client.close())
  return client
}

export const wireCall = (more: Partial<WireCall> = {}): WireCall => ({
  callId: 'c1',
  name: 'remote',
  arguments: { city: 'Graz' },
  scope: 'team-a',
  session: 's1',
  signal: new AbortController().signal,
  isIdempotent: false,
  progress: () => {},
  ...more
})

export const httpExecutor = (url: string, client = httpToolClient(), secret = 'signing-secret'): HttpExecutor =>
  new HttpExecutor({ url: new URL(url), client, secret })
