import { realpath, stat } from 'node:fs/promises'
import { isAbsolute, relative, sep } from 'node:path'
import type { Principal } from '../server/auth/principal.ts'
import { RequestError } from '../server/errors.ts'

/**
 * The canonical path of a directory that may be a session's (api.md §4). Who is no admin learns nothing of what lies outside the
 * roots, not even whether it exists.
 */
export async function allowedDirectory(path: string, roots: readonly string[], { role }: Principal): Promise<string> {
  const directory = await canonicalDirectory(path)
  if (role === 'admin') {
    if (directory === undefined) throw new RequestError('BAD_REQUEST', 'cwd is not the absolute path of a directory')
    return directory
  }
  const allowed = await Promise.all(roots.map(canonicalDirectory))
  const isInside = allowed.some((root) => root !== undefined && directory !== undefined && isWithin(directory, root))
  if (directory === undefined || !isInside) {
    throw new RequestError('FORBIDDEN', 'cwd is not a directory inside the configured workspace.roots')
  }
  return directory
}

async function canonicalDirectory(path: string): Promise<string | undefined> {
  if (!isAbsolute(path) || path.includes('\0')) return undefined
  try {
    const canonical = await realpath(path)
    return (await stat(canonical)).isDirectory() ? canonical : undefined
  } catch {
    return undefined
  }
}

const isWithin = (path: string, root: string): boolean => {
  const way = relative(root, path)
  return way === '' || (way !== '..' && !way.startsWith(`..${sep}`) && !isAbsolute(way))
}
