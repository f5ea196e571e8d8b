import { chmodSync, mkdtempSync, readFileSync, readdirSync, realpathSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'
import type {
  Binding,
  BoundFunction,
  CodeRuntime,
  RunRequest,
  RunResult
} from '../../server/code-runtime/code-runtime.ts'
import type { JsonValue } from '../../server/json/lossless.ts'

type Arguments = { [key: string]: JsonValue }

/** The fixture tools of the code-mode cases, as a runtime sees them: plain async functions. */
export function fixtureFunctions(more: Record<string, BoundFunction> = {}): Record<string, BoundFunction> {
  const functions: Record<string, BoundFunction> = Object.assign(Object.create(null) as Record<string, BoundFunction>, {
    echo: async (args: JsonValue) => `echo:${String((args as Arguments).value)}`,
    add: async (args: JsonValue) => ((args as Arguments).a as number) + ((args as Arguments).b as number),
    fail: async (args: JsonValue) => {
      throw new Error(String((args as Arguments).why ?? 'deliberate'))
    },
    mirror: async (args: JsonValue) => args,
    hang: () => new Promise(() => {}),
    lossy: async () => ({ at: new Date(0) }),
    nap: async (args: JsonValue) => {
      await new Promise((resolve) => setTimeout(resolve, Number((args as Arguments).ms)))
      return (args as Arguments).id
    },
    ...more
  })
  for (const name of ['my-tool', '3d', 'class', '__proto__', 'constructor']) {
    Object.defineProperty(functions, name, { value: async () => `${name}-ok`, enumerable: true })
  }
  return functions
}

/** The one binding that code mode passes. */
export const toolsBinding = (functions = fixtureFunctions()): Binding => ({
  global: 'tools',
  functions,
  errorClass: { name: 'ToolCallError', memberNameProperty: 'toolName' }
})

/** Runs a program with the fixture tools. */
export const runProgram = (runtime: CodeRuntime, program: string, more: Partial<RunRequest> = {}): Promise<RunResult> =>
  runtime.run({ program, bindings: [toolsBinding()], ...more })

/** Processes of this machine whose command line holds a text. */
export function processesNaming(text: string): string[] {
  return readdirSync('/proc').filter((pid) => /^\d+$/.test(pid) && commandLine(pid).includes(text))
}

function commandLine(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'latin1')
  } catch {
    return ''
  }
}

/** All descendants of this process. */
export function descendants(): number[] {
  const pids = [process.pid]
  for (let at = 0; at < pids.length; at += 1) {
    for (const task of names(`/proc/${pids[at]}/task`))
      pids.push(...childrenOf(`/proc/${pids[at]}/task/${task}/children`))
  }
  return pids.slice(1)
}

/** Of these, what belongs to worlds: not the process that holds them. */
export const worldProcesses = (): number[] =>
  descendants().filter((pid) => !commandLine(String(pid)).includes('keeper-process.js'))

function names(path: string): string[] {
  try {
    return readdirSync(path)
  } catch {
    return []
  }
}

function childrenOf(path: string): number[] {
  try {
    return readFileSync(path, 'latin1').trim().split(' ').filter(Boolean).map(Number)
  } catch {
    return []
  }
}

/** A directory that every user may look into, and not below /tmp, of which a world sees nothing anyway. */
export function openDirectory(): string {
  const directory = realpathSync(mkdtempSync(join('/var/tmp', 'toolwright-test-')))
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }))
  chmodSync(directory, 0o755)
  return directory
}
