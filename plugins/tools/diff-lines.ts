/** Lines `oldStart` to `oldEnd - 1` give way to lines `newStart` to `newEnd - 1`, all from 0. */
export interface LineChange {
  oldStart: number
  oldEnd: number
  newStart: number
  newEnd: number
}

/**
 * How many lines may differ before the search for the fewest changes is given up: its cost grows with the square, and this many
 * take some 20 ms of the main loop.
 */
const MAX_DISTANCE = 1000

/** The changes that make one list of lines another, in order: the fewest, or, between very different ones, a coarser choice. */
export function diffLines(old: readonly string[], fresh: readonly string[]): LineChange[] {
  const most = Math.min(old.length, fresh.length)
  let head = 0
  while (head < most && old[head] === fresh[head]) head++
  let tail = 0
  while (tail < most - head && old[old.length - 1 - tail] === fresh[fresh.length - 1 - tail]) tail++
  const oldMiddle = old.slice(head, old.length - tail)
  const newMiddle = fresh.slice(head, fresh.length - tail)
  if (oldMiddle.length === 0 && newMiddle.length === 0) return []
  const changes = fewestChanges(oldMiddle, newMiddle) ?? lineByLine(oldMiddle, newMiddle)
  return changes.map(({ oldStart, oldEnd, newStart, newEnd }) => ({
    oldStart: oldStart + head,
    oldEnd: oldEnd + head,
    newStart: newStart + head,
    newEnd: newEnd + head
  }))
}

/** Myers' greedy search (1986), which keeps the furthest points of each step to walk back from the end. */
function fewestChanges(old: readonly string[], fresh: readonly string[]): LineChange[] | undefined {
  const steps: Int32Array[] = []
  // Index k + 1 + distance holds the furthest old line on diagonal k (old line minus new line) at that distance.
  let furthest = new Int32Array([0, 0, 0])
  for (let distance = 0; distance <= MAX_DISTANCE; distance++) {
    const next = new Int32Array(2 * distance + 5)
    for (let k = -distance; k <= distance; k += 2) {
      const isDown =
        k === -distance || (k !== distance && at(furthest, distance, k - 1) < at(furthest, distance, k + 1))
      let x = isDown ? at(furthest, distance, k + 1) : at(furthest, distance, k - 1) + 1
      let y = x - k
      while (x < old.length && y < fresh.length && old[x] === fresh[y]) {
        x++
        y++
      }
      next[k + distance + 2] = x
      if (x >= old.length && y >= fresh.length) return walkBack(steps, old.length, fresh.length)
    }
    steps.push(next)
    furthest = next
  }
  return undefined
}

/** What the step before `distance` had on diagonal k. */
const at = (furthest: Int32Array, distance: number, k: number): number => furthest[k + distance + 1]!

function walkBack(steps: readonly Int32Array[], oldLength: number, newLength: number): LineChange[] {
  const changes: LineChange[] = []
  let [x, y] = [oldLength, newLength]
  for (let distance = steps.length; distance > 0; distance--) {
    const furthest = steps[distance - 1]!
    const k = x - y
    const isDown = k === -distance || (k !== distance && at(furthest, distance, k - 1) < at(furthest, distance, k + 1))
    const fromX = at(furthest, distance, isDown ? k + 1 : k - 1)
    const fromY = fromX - (isDown ? k + 1 : k - 1)
    const [toX, toY] = isDown ? [fromX, fromY + 1] : [fromX + 1, fromY]
    const later = changes.at(-1)
    if (later !== undefined && later.oldStart === toX && later.newStart === toY) {
      later.oldStart = fromX
      later.newStart = fromY
    } else {
      changes.push({ oldStart: fromX, oldEnd: toX, newStart: fromY, newEnd: toY })
    }
    ;[x, y] = [fromX, fromY]
  }
  return changes.toReversed()
}

/** Lists of one length are compared line by line, as after a replacement everywhere; others differ as a whole. */
function lineByLine(old: readonly string[], fresh: readonly string[]): LineChange[] {
  if (old.length !== fresh.length) {
    return [{ oldStart: 0, oldEnd: old.length, newStart: 0, newEnd: fresh.length }]
  }
  const changes: LineChange[] = []
  old.forEach((line, index) => {
    if (line === fresh[index]) return
    const last = changes.at(-1)
    if (last?.oldEnd === index) last.oldEnd = last.newEnd = index + 1
    else changes.push({ oldStart: index, oldEnd: index + 1, newStart: index, newEnd: index + 1 })
  })
  return changes
}
