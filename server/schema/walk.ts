/** A walk over a tree, written as if it were recursive: it yields the walk of a child instead of calling it. */
export interface Walk extends Generator<Walk, void, void> {}

/** Runs a walk with its children kept on the heap, so that nesting is bounded by memory alone (core.md §4.6). */
export function runWalk(root: Walk): void {
  const open: Walk[] = [root]
  for (let at = open.at(-1); at !== undefined; at = open.at(-1)) {
    const step = at.next()
    if (step.done === true) open.pop()
    else open.push(step.value)
  }
}
