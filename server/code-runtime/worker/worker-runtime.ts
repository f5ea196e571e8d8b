import { resolveBudgets } from '../budgets.ts'
import type { CodeRuntime } from '../code-runtime.ts'
import { ProgramRuntime, type RuntimeOptions } from '../program-runtime.ts'
import { TypeStripper } from '../strip-types.ts'

/**
 * The runtime whose worlds are threads of the server's own process: quicker, and no containment of a hostile program, which can end
 * the server (code-mode.md §15.1). Throws a `RangeError` for a budget that is none.
 */
export async function openWorkerRuntime({ onStuck, ...given }: RuntimeOptions = {}): Promise<CodeRuntime> {
  const budgets = resolveBudgets(given)
  const stripper = new TypeStripper()
  return ProgramRuntime.open(
    {
      language: 'typescript',
      isolation: 'worker-thread',
      source: { type: 'thread' },
      prepare: (program) => stripper.prepare(program),
      close: () => stripper.dispose(),
      onStuck
    },
    budgets
  )
}
