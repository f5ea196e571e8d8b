import { fileURLToPath } from 'node:url'
import { resolveBudgets } from '../budgets.ts'
import type { CodeRuntime } from '../code-runtime.ts'
import { launchesOf } from '../containment.ts'
import type { ProcessRuntimeOptions } from '../process/process-runtime.ts'
import { ProgramRuntime } from '../program-runtime.ts'
import { findInterpreter } from './interpreter.ts'

/** `pythonPath`: the interpreter; otherwise the first of the usual ones is taken. */
export interface PythonRuntimeOptions extends ProcessRuntimeOptions {
  readonly pythonPath?: string
}

/**
 * The runtime for programs in Python, each in a process of its own (code-mode.md §5). Throws a `RangeError` for a budget that is none,
 * and `RuntimeUnavailableError` when there is no interpreter or no world starts.
 */
export async function openPythonRuntime({
  pythonPath,
  hiddenPaths,
  onStuck,
  ...given
}: PythonRuntimeOptions = {}): Promise<CodeRuntime> {
  const budgets = resolveBudgets(given)
  const interpreter = await findInterpreter(pythonPath)
  const { maxOldGenerationSizeMb, maxOutputBytes } = budgets
  const world = fileURLToPath(new URL('./world.py', import.meta.url))
  const limits = JSON.stringify({ maxOldGenerationSizeMb, maxOutputBytes })
  return ProgramRuntime.open(
    {
      language: 'python',
      isolation: 'process',
      // -I: neither the environment nor a user's packages are looked at. -S: nor site packages. -B: no files are written.
      source: { type: 'process', launches: launchesOf(interpreter, ['-I', '-S', '-B', world, limits], hiddenPaths) },
      prepare: async (program) => ({ code: program }),
      close: async () => {},
      onStuck
    },
    budgets
  )
}
