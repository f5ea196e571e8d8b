import { FileError } from '../../server/backends/files/files.ts'
import { SearchError, type SearchPlace } from '../../server/backends/search/search.ts'
import type { RunContext } from '../../server/pipeline/execution.ts'
import { type PathServices, resolveInWorkspace } from './workspace-path.ts'

/** Where to search, and how what is found there is shown. */
export interface ShownPlace {
  place: SearchPlace
  /** The root as people named it. */
  root: string
  /** A found path as people would name it; undefined when its file may not be read, so that nobody is to know of it. */
  shown: (found: string) => string | undefined
}

/**
 * The place that the argument `path` names, by default the session's directory. Paths inside that directory are shown relative to it
 * (backends.md §6.7). Rejects with SEARCH_FAILED for what is not there, with FileError for what may not be read.
 */
export async function searchPlace(
  services: PathServices,
  path: string | undefined,
  { agent, signal }: Pick<RunContext, 'agent' | 'signal'>
): Promise<ShownPlace> {
  if (path?.trim() === '') throw new Error('path is blank')
  const target = await resolveInWorkspace(services, path ?? '.', agent).catch((error: unknown) => {
    if (!(error instanceof FileError) || error.code !== 'FS_NOT_FOUND') throw error
    throw new SearchError('SEARCH_FAILED', error.message, { cause: error })
  })
  const { targetKey, displayPath, cwd } = target
  const { files } = services
  if (!files.isReadable(targetKey, target))
    throw new FileError('FS_PERMISSION_DENIED', `${displayPath}: outside of what may be read`)
  const relative = (absolute: string): string => {
    if (absolute === cwd) return '.'
    const prefix = asPrefix(cwd)
    return absolute.startsWith(prefix) ? absolute.slice(prefix.length) : absolute
  }
  return {
    // The canonical root: a link that is exchanged meanwhile leads nowhere else.
    place: { cwd, root: targetKey, signal },
    root: relative(displayPath),
    shown(found) {
      if (!files.isReadable(found, target)) return undefined
      if (found === targetKey) return relative(displayPath)
      return relative(asPrefix(displayPath) + found.slice(asPrefix(targetKey).length))
    }
  }
}

const asPrefix = (directory: string): string => (directory.endsWith('/') ? directory : `${directory}/`)
