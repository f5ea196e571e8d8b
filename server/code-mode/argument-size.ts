import type { JsonValue } from '../json/lossless.ts'

/** About the bytes that a value takes in memory: enough to bound what programs can pile up, and quicker than writing it out. */
export function approximateBytes(root: JsonValue): number {
  let bytes = 0
  const open: JsonValue[] = [root]
  for (let value = open.pop(); value !== undefined; value = open.pop()) {
    bytes += 16
    if (typeof value === 'string') bytes += value.length
    if (typeof value !== 'object' || value === null) continue
    for (const key of Object.keys(value)) {
      bytes += Array.isArray(value) ? 0 : key.length
      open.push((value as Record<string, JsonValue>)[key]!)
    }
  }
  return bytes
}
