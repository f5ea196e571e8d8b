/** One step into a JSON value: a property name or an array index. */
export type PathStep = string | number

const plainName = /^[A-Za-z_$][\w$-]*$/

// A value from outside may be thousands of levels deep and name its keys by the megabyte; a message must stay a message.
const longestName = 80
const shownSteps = 64

/**
 * Writes a path for people: `$.rows[3].at`, `value["a b"]`. With an empty root the first name has no dot before it and the
 * root itself is called `arguments` (core.md §3.13). The middle of a path of more than 128
 * steps is left out.
 */
export function formatPath(root: string, steps: readonly PathStep[]): string {
  if (steps.length === 0) return root === '' ? 'arguments' : root
  let text = root
  for (const step of shorten(steps)) {
    if (step === undefined) text += '…'
    else if (typeof step === 'number') text += `[${step}]`
    else if (plainName.test(step) && step.length <= longestName) text += text === '' ? step : `.${step}`
    else text += `[${JSON.stringify(clip(step))}]`
  }
  return text
}

function shorten(steps: readonly PathStep[]): readonly (PathStep | undefined)[] {
  if (steps.length <= 2 * shownSteps) return steps
  return [...steps.slice(0, shownSteps), undefined, ...steps.slice(-shownSteps)]
}

function clip(name: string): string {
  return name.length > longestName ? `${name.slice(0, longestName)}…` : name
}

/** A path as a chain from its end, so that a walk makes a step for the price of one small object. */
export interface Trail {
  readonly parent: Trail | undefined
  readonly step: PathStep
}

/** The steps of a trail from the root on; of no trail, none. */
export function stepsOf(trail: Trail | undefined): PathStep[] {
  const steps: PathStep[] = []
  for (let at = trail; at !== undefined; at = at.parent) steps.push(at.step)
  return steps.toReversed()
}
