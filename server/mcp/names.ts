import { createHash } from 'node:crypto'

/** What a server may be called (backends.md §10). */
export const serverNamePattern = '^[A-Za-z0-9_-]{1,32}$'

const maxLength = 64
const keptLength = 51
const hashLength = 12

/**
 * The public name of a server's tool (backends.md §10): `mcp__<server>__<raw>` where that is a tool's name as it stands, else a part of
 * it and a hash of both. It depends on the two alone: neither order nor other servers ever rename a tool. Never parsed back.
 */
export function publicName(server: string, raw: string): string {
  const full = `mcp__${server}__${raw}`
  const safe = full.replaceAll(/[^A-Za-z0-9_-]/g, '_')
  if (safe === full && full.length <= maxLength) return full
  const hash = createHash('sha256').update(`${server}\0${raw}`).digest('hex')
  return `${safe.slice(0, keptLength)}_${hash.slice(0, hashLength)}`
}
