import { realpath } from 'node:fs/promises'
import { FileError } from '../../server/backends/files/files.ts'
import type { SandboxPolicies } from '../../server/backends/sandbox/sandbox.ts'
import { isWithin } from '../../server/backends/sandbox/write-fence.ts'
import { SearchError, type SearchPlace } from '../../server/backends/search/search.ts'
import type { RunContext } from '../../server/pipeline/execution.ts'
import { type PathServices, resolveInWorkspace } from './workspace-path.ts'

/** What a search looks for its place with. */
export interface SearchServices extends PathServices {
  sandboxPolicies?: SandboxPolicies
}

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
 * (backends.md §6.7). Where commands are confined, so is the search, which only reads. Rejects with SEARCH_FAILED for what is not there, with
 * FileError for what may not be read.
 */
export async function searchPlace(
  services: SearchServices,
  path: string | undefined,
  exec: RunContext
): Promise<ShownPlace> {
  const { agent, signal } = exec
  if (path?.trim() === '') throw new Error('path is blank')
  const target = await resolveInWorkspace(services, path ?? '.', agent).catch((error: unknown) => {
    if (!(error instanceof FileError) || error.code !== 'FS_NOT_FOUND') throw error
    throw new SearchError('SEARCH_FAILED', error.message, { cause: error })
  })
  const { targetKey, displayPath, cwd, ownOutputs } = target
  const { files, sandboxPolicies } = services
  if (!files.isReadable(targetKey, target))
    throw new FileError('FS_PERMISSION_DENIED', `${displayPath}: outside of what may be read`)
  const relative = (absolute: string): string => {
    if (absolute === cwd) return '.'
    const prefix = asPrefix(cwd)
    return absolute.startsWith(prefix) ? absolute.slice(prefix.length) : absolute
  }
  // Only the server writes there, and a sandbox would not show it.
  const outputs = ownOutputs === undefined ? undefined : await realpath(ownOutputs).catch(() => undefined)
  const isOwnOutput = outputs !== undefined && isWithin(targetKey, outputs)
  const policy = isOwnOutput ? undefined : await sandboxPolicies?.policyFor(exec, {}, 'files')
  return {
    place: {
      ...{ cwd, root: targetKey, signal },
      ...(policy !== undefined && {
        confine: (argv) => sandboxPolicies!.wrap(argv, policy, { workdir: cwd, readsTmp: true })
      })
    },
    root: relative(displayPath),
    shown(found) {
      if (!files.isReadable(found, target)) return undefined
      if (found === targetKey) return relative(displayPath)
      return relative(asPrefix(displayPath) + found.slice(asPrefix(targetKey).length))
    }
  }
}

const asPrefix = (directory: string): string => (directory.endsWith('/') ? directory : `${directory}/`)
