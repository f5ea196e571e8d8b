import { text } from '../../server/authoring/content.ts'
import { defineTool } from '../../server/authoring/define-tool.ts'
import type { Search } from '../../server/backends/search/search.ts'
import type { PresentedResult, ResultCard, ToolDefinition } from '../../server/tools/definition.ts'
import { definePlugin } from '../define-plugin.ts'
import { type PathsPage, renderPaths, samplePaths, wholePaths } from './glob-text.ts'
import { searchPlace, type SearchServices } from './search-place.ts'
import { type CappedCalls, saveWholeLists } from './search-spill.ts'
import { fitting, listFacts } from './search-text.ts'

export interface GlobOptions {
  /** Paths that are shown; positive and whole. */
  globMaxResults: number
  /** Show some of every top-level entry instead of the first paths, when there are more than that. */
  sampleOverCapGlobResults: boolean
}

interface GlobServices extends SearchServices {
  fileSearch: Search
}

interface Found {
  root: string
  paths: string[]
}

const pageOf = ({ root, paths }: Found, { globMaxResults: max, sampleOverCapGlobResults }: GlobOptions): PathsPage => {
  const isSampled = sampleOverCapGlobResults && paths.length > max
  return { paths: isSampled ? samplePaths(paths, root, max) : paths.slice(0, max), total: paths.length, isSampled }
}

/** The tool `glob` (backends.md §6.7): files by their names. Calls whose paths are not all shown are entered in `capped`. */
export function globTool(
  { fileSearch, ...services }: GlobServices,
  options: GlobOptions,
  capped: CappedCalls
): ToolDefinition {
  return defineTool({
    name: 'glob',
    description:
      'Finds files by a glob pattern such as "*.ts" or "src/**/*.test.js". Hidden and git-ignored files count, directories and ' +
      "what version control keeps for itself do not. A pattern with a slash is matched from the session's directory on, one " +
      `without anywhere. Sorted by time of change, oldest first; ${options.globMaxResults} paths are shown.`,
    parameters: {
      pattern: { type: 'string', required: true, description: 'The glob: * ? [a-z] {a,b} and ** across directories.' },
      path: { type: 'string', description: "The directory to search; by default the session's." }
    },
    output: {
      schema: {
        type: 'object',
        additionalProperties: false,
        properties: {
          root: { type: 'string', required: true },
          paths: { type: 'array', items: { type: 'string' }, required: true }
        }
      },
      render: (_args, value) => text(renderPaths(pageOf(value, options))),
      presentationMeta(_args, value) {
        const page = pageOf(value, options)
        const paths = fitting(page.paths)
        return { shape: 'paths', paths, truncated: paths.length < page.total, total: page.total }
      }
    },
    timeoutMs: 30_000,
    idempotent: true,
    async execute({ pattern, path }, exec) {
      if (pattern.trim() === '') throw new Error('pattern is blank')
      const { place, root, shown } = await searchPlace(services, path, exec)
      const paths = (await fileSearch.files(pattern, place)).flatMap((found) => shown(found) ?? [])
      if (paths.length > options.globMaxResults) capped.add(exec)
      return { root, paths }
    },
    presentCall: ({ pattern, path }) => ({
      card: 'generic',
      kind: 'search',
      title: path === undefined ? `Find ${pattern}` : `Find ${pattern} in ${path}`,
      rawInput: pattern
    }),
    presentResult: (_args, result) => pathsCard(result)
  })
}

/** A card out of what was stored, which may be old or damaged: then there is none (backends.md §1). */
function pathsCard({ isError, meta }: PresentedResult): ResultCard | undefined {
  const facts = listFacts(meta)
  const paths = facts?.['paths']
  if (isError || facts?.['shape'] !== 'paths' || !Array.isArray(paths)) return undefined
  if (!paths.every((path) => typeof path === 'string') || paths.length > facts.total) return undefined
  return { card: 'search', shape: 'paths', paths, truncated: facts.truncated, total: facts.total }
}

export default definePlugin(
  { name: 'glob', needs: ['fileSearch', 'files', 'workspaces', 'sandboxPolicies', 'spill'] },
  (tools, { spill, ...services }, options: GlobOptions) => {
    const capped: CappedCalls = new WeakSet()
    tools.register(globTool(services, options, capped))
    saveWholeLists<Found>(tools, {
      capped,
      spill,
      fileName: 'glob-results.txt',
      whole: ({ paths }) => wholePaths(paths),
      render: (value, note) => renderPaths(pageOf(value, options), note)
    })
  }
)
