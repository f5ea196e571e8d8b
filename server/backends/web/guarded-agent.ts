import { isIP } from 'node:net'
import type { Agent } from 'undici'
import type { AddressGuard } from './address-guard.ts'

/**
 * An undici agent whose sockets reach only what a guard lets them (reliability.md §1.8). Redirects are not followed by it: each hop
 * goes through `guard.assertUrl` again. Destroy it when done; until then it keeps connections. `timeoutMs` is that of a connection, and of
 * each wait for the next piece of an answer unless `options` say otherwise. Undici is loaded with the first one: it is a sixth of what a
 * server loads to start.
 */
export async function guardedAgent(
  guard: AddressGuard,
  { timeoutMs }: { timeoutMs: number },
  options: Omit<Agent.Options, 'connect'> = {}
): Promise<Agent> {
  const { Agent, buildConnector } = await import('undici')
  const connect = buildConnector({ lookup: guard.lookup, timeout: timeoutMs, autoSelectFamily: true })
  return new Agent({
    headersTimeout: timeoutMs,
    bodyTimeout: timeoutMs,
    ...options,
    connect: (options, callback) => {
      try {
        // Node never looks up what is an address already.
        if (isIP(options.hostname) !== 0) guard.assertAddress(options.hostname)
      } catch (error) {
        callback(error as Error, null)
        return
      }
      connect(options, (...[error, socket]) => {
        if (error !== null) return callback(error, null)
        try {
          guard.assertAddress(socket.remoteAddress)
        } catch (refusal) {
          socket.destroy()
          return callback(refusal as Error, null)
        }
        callback(null, socket)
      })
    }
  })
}
