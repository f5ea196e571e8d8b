import { readlink, realpath } from 'node:fs/promises'
import { basename, dirname, join, resolve } from 'node:path'

/** As many links as the kernel follows. */
const MAX_LINKS = 40

/**
 * The real path of a file that may not exist yet: the real path of its deepest existing ancestor and the missing rest, through
 * links that dangle too, so that all aliases share one identity before and after the file is made (backends.md §6.1).
 */
export async function canonicalPath(path: string): Promise<string> {
  let pending = resolve(path)
  let missing: string[] = []
  for (let links = 0; links <= MAX_LINKS;) {
    try {
      return join(await realpath(pending), ...missing)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error
    }
    const target = await readlink(pending).catch(() => undefined)
    if (target === undefined) {
      missing = [basename(pending), ...missing]
      pending = dirname(pending)
    } else {
      // The link's own directory is real before its target is joined to it: `..` in a target counts from there.
      pending = resolve(await realpath(dirname(pending)), target)
      links++
    }
  }
  throw Object.assign(new Error('too many links'), { code: 'ELOOP' })
}

/** Whether a path is the directory itself or lies under it; never by bare prefix (reliability.md §1.4). */
export const isWithin = (path: string, root: string): boolean =>
  path === root || path.startsWith(root.endsWith('/') ? root : `${root}/`)
