import { isLoopback } from './load.ts'
import type { Config } from './schema.ts'

/** How commands run (reliability.md, decisions): unconfined only where it is said, or where nobody but this machine's users can ask. */
export function shellExecutor({
  host,
  shell,
  sandbox
}: Pick<Config, 'host' | 'shell' | 'sandbox'>): Exclude<Config['shell']['executor'], 'auto'> {
  if (sandbox.required) return 'bash-sandbox'
  if (shell.executor !== 'auto') return shell.executor
  return isLoopback(host) ? 'bash-local' : 'bash-sandbox'
}
