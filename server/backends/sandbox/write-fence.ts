import { realpathSync } from 'node:fs'
import { tmpdir } from 'node:os'
import type { SandboxPolicy } from './sandbox.ts'

/** Where everyone may write under workspace-write besides the workspace (backends.md §11.1): the temporary directories, canonical. */
export const temporaryRoots = (): string[] => [...new Set(['/tmp', tmpdir()].map(canonical))]

/**
 * Whether a file tool may change the file of this canonical path under a policy (backends.md §11.1). The server's own data is closed
 * in every confined mode, save for a workspace strictly inside it.
 */
export function mayWrite(path: string, { mode, workspaceRoot }: SandboxPolicy, dataDirectory: string): boolean {
  if (mode === 'danger-full-access') return true
  if (mode === 'read-only') return false
  const isOwnData = workspaceRoot !== dataDirectory && isWithin(workspaceRoot, dataDirectory)
  if (isOwnData && isWithin(path, workspaceRoot)) return true
  if (isWithin(path, dataDirectory)) return false
  return [workspaceRoot, ...temporaryRoots()].some((root) => isWithin(path, root))
}

/** Never by bare prefix. */
export const isWithin = (path: string, root: string): boolean =>
  path === root || path.startsWith(root.endsWith('/') ? root : `${root}/`)

function canonical(path: string): string {
  try {
    return realpathSync(path)
  } catch {
    return path
  }
}
