import type { JobOutcome, Jobs, JobWork } from '../../server/backends/jobs/jobs.ts'
import type { BackgroundCommand } from '../../server/backends/shell/shell.ts'
import { renderDelta } from './command-text.ts'

/** The parameter that sends a command to the background; none where nothing can run there. */
export function backgroundParameters(jobs: Jobs | undefined) {
  if (jobs === undefined) return {}
  return {
    run_in_background: {
      type: 'boolean',
      description:
        'Return a job id at once instead of waiting: read the output with job_output, end it with job_kill. No time limit applies.'
    }
  } as const
}

/** Undeclared arguments pass validation, so what is not offered is refused in the body (backends.md §1). */
export function isForBackground(args: object): boolean {
  return (new Map<string, unknown>(Object.entries(args)).get('run_in_background') ?? false) !== false
}

/** A command in the background as a job's work (backends.md §3.2). */
export function commandWork(command: BackgroundCommand): JobWork {
  let hasToldSandbox = false
  return {
    done: command.done.then(() => outcomeOf(command)),
    cancel: () => void command.kill(),
    async readDelta() {
      const delta = await command.readOutput()
      const sandbox = hasToldSandbox ? undefined : command.sandbox
      hasToldSandbox ||= sandbox !== undefined
      return renderDelta(delta, sandbox)
    },
    readWindow: async ({ stream, after, maxBytes }) => {
      const { text, from, nextOffset: next, lossy } = await command.readPiece(stream, after, maxBytes)
      return { text, from, next, lossy }
    },
    endLeftovers: () => command.endLeftovers()
  }
}

function outcomeOf({ status, exitCode, signal }: BackgroundCommand): JobOutcome {
  const detail =
    signal !== null ? `signal: ${signal}` : exitCode !== null ? `exit code: ${exitCode}` : 'killed before exit'
  return { status: status === 'killed' ? 'killed' : 'completed', detail }
}
