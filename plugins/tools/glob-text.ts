import { pathLine } from './search-text.ts'

/** What is shown of the paths that were found. */
export interface PathsPage {
  paths: string[]
  total: number
  /** Taken from all top-level entries alike. */
  isSampled: boolean
}

/** What a model reads (backends.md §6.7). `note` says where all paths are, when these are not all. */
export function renderPaths({ paths, total, isSampled }: PathsPage, note = ''): string {
  if (total === 0) return 'No files found'
  const list = wholePaths(paths)
  if (paths.length === total) return list
  const which = isSampled
    ? `${paths.length} of ${total} paths, some of each top-level entry`
    : `the first ${paths.length} of ${total} paths`
  return `${list}\n\n(Shown are ${which}${note}.)`
}

export const wholePaths = (paths: readonly string[]): string => paths.map(pathLine).join('\n')

/** So many paths, taken from the top-level entries under the root in turns; those of one entry stand together, in their order. */
export function samplePaths(paths: readonly string[], root: string, count: number): string[] {
  const prefix = root === '.' ? '' : root.endsWith('/') ? root : `${root}/`
  const entries = new Map<string, string[]>()
  for (const path of paths) {
    const [top = ''] = path.slice(prefix.length).split('/', 1)
    const known = entries.get(top)
    if (known === undefined) entries.set(top, [path])
    else known.push(path)
  }
  const groups = [...entries.values()]
  const taken = groups.map(() => 0)
  let left = Math.min(count, paths.length)
  while (left > 0) {
    for (const [at, group] of groups.entries()) {
      if (left === 0 || taken[at] === group.length) continue
      taken[at]! += 1
      left -= 1
    }
  }
  return groups.flatMap((group, at) => group.slice(0, taken[at]))
}
