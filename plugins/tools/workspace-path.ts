import type { Files, ResolvedPath } from '../../server/backends/files/files.ts'
import type { Workspaces } from '../../server/backends/files/workspaces.ts'

/** What paths are made definite with. */
export interface PathServices {
  files: Files
  workspaces: Workspaces
}

/** A path as an agent means it: relative to its session's directory, which it may read, as it may its own outputs. Rejects with FileError. */
export async function resolveInWorkspace(
  { files, workspaces }: PathServices,
  path: string,
  agent: object | undefined
): Promise<ResolvedPath & { cwd: string; ownOutputs: string | undefined }> {
  const ownOutputs = workspaces.spillDirectoryOf?.(agent)
  const cwd = await workspaces.cwdOf(agent)
  const resolved = await files.resolve(path, { cwd, openRoots: ownOutputs === undefined ? [] : [ownOutputs] })
  return { ...resolved, cwd, ownOutputs }
}
