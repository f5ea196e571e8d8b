/**
 * Limits of a runtime (code-mode.md §11). A run carries none of its own. `computeMs` and `maxWallMs` bound the program's busy time
 * and its wall-clock time in ms, `maxOutputBytes` what it says (§10), `maxOldGenerationSizeMb` its JavaScript heap and `maxRssMb` the
 * resident memory of all its processes, both in MiB, `maxProgramBytes` its text in UTF-8. A world that has not ended
 * `terminateGraceMs` after it was told to is reported stuck. `spareWorlds` are kept started for the next runs.
 */
export interface RuntimeBudgets {
  readonly computeMs: number
  readonly maxWallMs: number
  readonly maxOutputBytes: number
  readonly maxOldGenerationSizeMb: number
  readonly maxRssMb: number
  readonly maxProgramBytes: number
  readonly terminateGraceMs: number
  readonly spareWorlds: number
  readonly maxConcurrentRuns: number
  readonly maxQueuedRuns: number
}

/** The budgets of a runtime that is configured with none (code-mode.md §11). */
export const defaultBudgets: RuntimeBudgets = Object.freeze({
  computeMs: 60_000,
  maxWallMs: 600_000,
  maxOutputBytes: 67_108_864,
  maxOldGenerationSizeMb: 512,
  maxRssMb: 1_024,
  maxProgramBytes: 1_048_576,
  terminateGraceMs: 1_000,
  spareWorlds: 1,
  maxConcurrentRuns: 8,
  maxQueuedRuns: 64
})

/** The JavaScript heap of whoever holds the worlds, in MiB: there is room for the logs of all runs at once. */
export const heapMbOf = ({ maxConcurrentRuns, maxOutputBytes }: RuntimeBudgets): number =>
  1_024 + Math.ceil((maxConcurrentRuns * maxOutputBytes * 3) / 1_048_576)

/** A larger delay of a timer fires after 1 ms (code-mode.md §5). */
const longestTimer = 2_147_483_647

/** Least and largest value of those that have a rule besides being finite and positive; `whole` ones must be safe integers. */
const rules: Partial<Record<keyof RuntimeBudgets, { least?: number; most?: number; whole?: boolean }>> = {
  maxWallMs: { most: longestTimer },
  terminateGraceMs: { most: longestTimer },
  // `[]` for the logs and `""` for the diagnostic.
  maxOutputBytes: { least: 4, whole: true },
  maxProgramBytes: { whole: true },
  spareWorlds: { least: 0, most: 64, whole: true },
  maxConcurrentRuns: { least: 1, whole: true },
  maxQueuedRuns: { least: 0, whole: true }
}

/** Completes budgets with the defaults and checks them. Throws a `RangeError` that names the setting (code-mode.md §5). */
export function resolveBudgets(given: Partial<RuntimeBudgets> = {}): RuntimeBudgets {
  const budgets = { ...defaultBudgets }
  for (const name of Object.keys(defaultBudgets) as (keyof RuntimeBudgets)[]) {
    const value: unknown = given[name] ?? defaultBudgets[name]
    const { least = 0, most = Infinity, whole = false } = rules[name] ?? {}
    const isInRange = typeof value === 'number' && Number.isFinite(value) && value >= least && value <= most
    if (!isInRange || (rules[name]?.least === undefined && value === 0) || (whole && !Number.isSafeInteger(value))) {
      throw new RangeError(`${name} must be ${describe(rules[name])}, not ${String(value)}.`)
    }
    budgets[name] = value
  }
  return Object.freeze(budgets)
}

function describe({ least, most, whole = false }: { least?: number; most?: number; whole?: boolean } = {}): string {
  const kind = whole ? 'an integer' : 'a finite number'
  return `${kind} ${least === undefined ? 'above 0' : `of at least ${least}`}${most === undefined ? '' : ` and at most ${most}`}`
}
