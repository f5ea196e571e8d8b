/**
 * Freezes a JSON value and everything in it, in place, and returns it. Iterative: nesting is bounded by memory alone
 * (core.md §2.6). Functions among the values stay as they are.
 */
export function deepFreeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null) return value
  const open: object[] = [value]
  // Freezing marks what has been walked. Only what came frozen from outside, perhaps not to the bottom, needs the set.
  let cameFrozen: Set<object> | undefined
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    if (Object.isFrozen(at)) {
      cameFrozen ??= new Set()
      if (cameFrozen.has(at)) continue
      cameFrozen.add(at)
    } else Object.freeze(at)
    for (const item of Array.isArray(at) ? (at as unknown[]) : Object.values(at)) {
      if (typeof item === 'object' && item !== null) open.push(item as object)
    }
  }
  return value
}
