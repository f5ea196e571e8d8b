import { text } from '../../server/authoring/content.ts'
import { defineTool } from '../../server/authoring/define-tool.ts'
import type { Search } from '../../server/backends/search/search.ts'
import type { ToolDefinition } from '../../server/tools/definition.ts'
import { definePlugin } from '../define-plugin.ts'
import { MAX_MATCHES, matchesCard, matchesMeta, renderMatches, wholeMatches } from './grep-text.ts'
import type { FoundLine } from './grep-text.ts'
import { searchPlace, type SearchServices } from './search-place.ts'
import { type CappedCalls, saveWholeLists } from './search-spill.ts'

interface GrepServices extends SearchServices {
  fileSearch: Search
}

/** The tool `grep` (backends.md §6.8): lines by a regular expression. Calls whose lines are not all shown are entered in `capped`. */
export function grepTool({ fileSearch, ...services }: GrepServices, capped: CappedCalls): ToolDefinition {
  return defineTool({
    name: 'grep',
    description:
      'Finds lines that match a regular expression (Rust syntax: no look-around, no backreferences, within one line), below a ' +
      'directory or in one file. Hidden, git-ignored and binary files are passed over; files that "include" names are searched ' +
      `also when they are ignored. ${MAX_MATCHES} matches are shown.`,
    parameters: {
      pattern: { type: 'string', required: true, description: 'The regular expression.' },
      path: { type: 'string', description: "The directory or file to search; by default the session's directory." },
      include: { type: 'string', description: 'Only files that match this one glob, such as "*.{ts,tsx}".' }
    },
    output: {
      schema: {
        type: 'object',
        additionalProperties: false,
        properties: {
          matches: {
            type: 'array',
            required: true,
            items: {
              type: 'object',
              additionalProperties: false,
              properties: {
                path: { type: 'string', required: true },
                lineNumber: { type: 'integer', required: true },
                line: { type: 'string', required: true }
              }
            }
          }
        }
      },
      render: (_args, { matches }) => text(renderMatches(matches)),
      presentationMeta: (_args, { matches }) => matchesMeta(matches)
    },
    timeoutMs: 30_000,
    idempotent: true,
    async execute({ pattern, path, include }, exec) {
      if (pattern === '') throw new Error('pattern is empty')
      if (include !== undefined) assertOneGlob(include)
      const { place, shown } = await searchPlace(services, path, exec)
      const found = await fileSearch.matches(pattern, { ...place, ...(include !== undefined && { include }) })
      const matches = found.flatMap((match) => {
        const name = shown(match.path)
        return name === undefined ? [] : { ...match, path: name }
      })
      if (matches.length > MAX_MATCHES) capped.add(exec)
      return { matches }
    },
    presentCall: ({ pattern, path, include }) => ({
      card: 'generic',
      kind: 'search',
      title: `Search ${pattern}${path === undefined ? '' : ` in ${path}`}${include === undefined ? '' : ` (${include})`}`,
      rawInput: pattern
    }),
    presentResult: (_args, result) => matchesCard(result)
  })
}

/** One positive glob: what looks like a list, or like an exclusion, would silently search something else. */
function assertOneGlob(include: string): void {
  if (include.trim() === '') throw new Error('include is blank')
  if (include.startsWith('!')) throw new Error('include names what is searched; it cannot exclude')
  let depth = 0
  let isInClass = false
  for (let at = 0; at < include.length; at++) {
    const character = include[at]
    if (character === '\\') at += 1
    else if (isInClass) isInClass = character !== ']'
    else if (character === '[') isInClass = true
    else if (character === '{') depth += 1
    else if (character === '}') depth -= 1
    else if (character === ',' && depth <= 0) throw new Error('include is one glob; write alternatives as {a,b}')
  }
}

export default definePlugin(
  { name: 'grep', needs: ['fileSearch', 'files', 'workspaces', 'sandboxPolicies', 'spill'] },
  (tools, { spill, ...services }) => {
    const capped: CappedCalls = new WeakSet()
    tools.register(grepTool(services, capped))
    saveWholeLists<{ matches: FoundLine[] }>(tools, {
      capped,
      spill,
      fileName: 'grep-results.txt',
      whole: ({ matches }) => wholeMatches(matches),
      render: ({ matches }, note) => renderMatches(matches, note)
    })
  }
)
