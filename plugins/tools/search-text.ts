import type { JsonObject, JsonValue } from '../../server/json/lossless.ts'

/** Serialised bytes of the metadata of a search: it is stored with the result, the value is not (backends.md §6.8). */
const MAX_META_BYTES = 65_536

/** A path on a line of its own: one with control characters is quoted, so that no name can look like several. */
// oxlint-disable-next-line no-control-regex
export const pathLine = (path: string): string => (/[\u0000-\u001f\u007f]/.test(path) ? JSON.stringify(path) : path)

/** What remains of items, taken from the end until their JSON fits into the metadata; at least one is kept. */
export function fitting<T extends JsonValue>(items: readonly T[]): T[] {
  let bytes = 0
  const fits = items.findIndex(
    (item) => (bytes += Buffer.byteLength(JSON.stringify(item)) + 1) > MAX_META_BYTES - 1_024
  )
  return items.slice(0, fits === -1 ? items.length : Math.max(1, fits))
}

/** The members that the metadata of both searches share; undefined when they are damaged. */
export function listFacts(
  meta: JsonValue | undefined
): (JsonObject & { truncated: boolean; total: number }) | undefined {
  if (typeof meta !== 'object' || meta === null || Array.isArray(meta)) return undefined
  const { truncated, total } = meta
  if (typeof truncated !== 'boolean' || !Number.isSafeInteger(total) || (total as number) < 0) return undefined
  return { ...meta, truncated, total: total as number }
}
