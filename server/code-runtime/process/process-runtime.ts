import { fileURLToPath } from 'node:url'
import { resolveBudgets } from '../budgets.ts'
import type { CodeRuntime } from '../code-runtime.ts'
import { launchesOf } from '../containment.ts'
import { ProgramRuntime, type RuntimeOptions } from '../program-runtime.ts'
import { TypeStripper } from '../strip-types.ts'

/** `hiddenPaths`: directories and files, such as the server's own state, that programs find empty where they have a namespace. */
export interface ProcessRuntimeOptions extends RuntimeOptions {
  readonly hiddenPaths?: readonly string[]
}

/**
 * The runtime whose worlds are processes (code-mode.md §15.2): TypeScript programs, each in a thread of a Node process of its own.
 * Throws a `RangeError` for a budget that is none, and `RuntimeUnavailableError` when no world starts.
 */
export async function openProcessRuntime({
  hiddenPaths,
  onStuck,
  ...given
}: ProcessRuntimeOptions = {}): Promise<CodeRuntime> {
  const budgets = resolveBudgets(given)
  const { maxOldGenerationSizeMb, maxOutputBytes } = budgets
  const relay = fileURLToPath(new URL('./relay.js', import.meta.url))
  const launches = launchesOf(
    process.execPath,
    [relay, JSON.stringify({ maxOldGenerationSizeMb, maxOutputBytes })],
    hiddenPaths
  )
  const stripper = new TypeStripper()
  return ProgramRuntime.open(
    {
      language: 'typescript',
      isolation: 'process',
      source: { type: 'process', launches },
      prepare: (program) => stripper.prepare(program),
      close: () => stripper.dispose(),
      onStuck
    },
    budgets
  )
}
