import { createRequire } from 'node:module'
import { LogOpenError } from './open-error.js'

/**
 * Refuses a pair of Node and better-sqlite3 that is known to crash the process (architecture.md §8): 13.x needs Node 22 and
 * segfaults below it, 12.x aborts on Node 24 when a statement is collected.
 */
export function assertRuntime(node = process.versions.node, sqlite = installedVersion()): void {
  const [nodeMajor, sqliteMajor] = [Number.parseInt(node, 10), Number.parseInt(sqlite, 10)]
  const needed = nodeMajor < 22 ? '12' : '13'
  const isBad = (nodeMajor < 22 && sqliteMajor >= 13) || (nodeMajor >= 24 && sqliteMajor < 13)
  if (!isBad) return
  const fix = `run "npm install --no-save better-sqlite3@${needed}"`
  throw new LogOpenError('BAD_RUNTIME', `better-sqlite3 ${sqlite} does not work on Node ${node}: ${fix}`)
}

function installedVersion(): string {
  const { version } = createRequire(import.meta.url)('better-sqlite3/package.json') as { version: string }
  return version
}
