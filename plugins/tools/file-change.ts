import {
  type ChangeOptions,
  type FileChange,
  FileError,
  type Files,
  type ResolvedPath
} from '../../server/backends/files/files.ts'
import type { Observations } from '../../server/backends/files/observations.ts'
import type { EscalationRequest, SandboxPolicies } from '../../server/backends/sandbox/sandbox.ts'
import type { Workspaces } from '../../server/backends/files/workspaces.ts'
import type { RunContext } from '../../server/pipeline/execution.ts'
import { escalationHint } from './escalation.ts'

export interface FileServices {
  files: Files
  workspaces: Workspaces
  observations: Observations
  /** Absent: nothing is confined. */
  sandboxPolicies?: SandboxPolicies
}

/** What to tell a model that met with a refusal which reading the file undoes (backends.md §6.2). */
const remedies = new Map([
  ['FS_STALE_VERSION', 'Re-read the file, then repeat the change on what it holds now.'],
  ['FS_NOT_OBSERVED', 'Read the file first.']
])

/**
 * One change of a file by a tool, under the observation policy (backends.md §6.2). `path` is resolved as `read` does; `escalation` is of the
 * tools whose calls can ask for more. Rejects with FileError; the message of a refusal says what to do, and its code stays.
 */
export async function changeFile(
  { files, workspaces, observations, sandboxPolicies }: FileServices,
  { path, kind, escalation }: { path: string; kind: 'write' | 'edit'; escalation?: EscalationRequest },
  exec: RunContext,
  change: (target: ResolvedPath, options: ChangeOptions) => Promise<FileChange>
): Promise<FileChange & { path: string }> {
  const { agent, signal } = exec
  const policy = await sandboxPolicies?.policyFor(exec, escalation ?? {}, 'files')
  const granted = policy === undefined ? {} : { granted: policy.mode }
  const target = await files.resolve(path, { cwd: await workspaces.cwdOf(agent) })
  try {
    const changed = await change(target, { ...observations.changeBy(agent, target, kind), ...granted, signal })
    return { path: target.displayPath, ...changed }
  } catch (error) {
    if (!(error instanceof FileError)) throw error
    const canEscalate = escalation !== undefined && (sandboxPolicies?.escalations ?? []).length > 0
    if (error.code === 'FS_SANDBOX_DENIED' && canEscalate) throw withRemedy(error, `\n${escalationHint}`)
    const remedy = remedies.get(error.code)
    throw remedy === undefined ? error : withRemedy(error, `. ${remedy}`)
  }
}

/** The same refusal, and what to do about it. */
const withRemedy = (error: FileError, remedy: string): FileError =>
  new FileError(error.code, error.message + remedy, { cause: error })

/** Undeclared arguments pass validation, so what is not offered is refused here (backends.md §1). */
export function assertUnconfined(args: object): void {
  for (const name of ['sandbox_permissions', 'justification']) {
    if (Object.hasOwn(args, name)) throw new Error(`${name} means nothing here: files are not confined`)
  }
}
