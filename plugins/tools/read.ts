import { text } from '../../server/authoring/content.ts'
import { defineTool } from '../../server/authoring/define-tool.ts'
import { FileError, type Files } from '../../server/backends/files/files.ts'
import type { Observations } from '../../server/backends/files/observations.ts'
import type { Workspaces } from '../../server/backends/files/workspaces.ts'
import type { JsonValue } from '../../server/json/lossless.ts'
import type { PresentedResult, ResultCard, ToolDefinition } from '../../server/tools/definition.ts'
import { definePlugin } from '../define-plugin.ts'
import { LineWindow } from './read-lines.ts'
import { languageOf, renderWindow, windowBody } from './read-text.ts'
import { resolveInWorkspace } from './workspace-path.ts'

/** Lines of a window that asks for no number, and the most it may ask for. */
const MAX_LINES = 2000

interface ReadServices {
  files: Files
  workspaces: Workspaces
  observations: Observations
}

/** The tool `read` (backends.md §6.3): a window of a text file, with line numbers. */
export function readTool({ files, workspaces, observations }: ReadServices): ToolDefinition {
  return defineTool({
    name: 'read',
    description:
      `Reads a text file, with line numbers: ${MAX_LINES} lines at most, from the beginning unless an offset is given. The ` +
      'last line of the answer says whether there is more. Long lines and long windows are cut.',
    parameters: {
      file_path: { type: 'string', required: true, description: "The file; relative to the session's directory." },
      offset: { type: 'number', description: 'The first line, from 1. Default 1.' },
      limit: { type: 'number', description: `How many lines, at most ${MAX_LINES}. Default ${MAX_LINES}.` }
    },
    output: {
      schema: {
        type: 'object',
        additionalProperties: false,
        properties: {
          path: { type: 'string', required: true },
          offset: { type: 'integer', required: true },
          lines: {
            type: 'array',
            required: true,
            items: {
              type: 'object',
              additionalProperties: false,
              properties: { number: { type: 'integer', required: true }, text: { type: 'string', required: true } }
            }
          },
          totalLines: { type: 'integer', required: true }
        }
      },
      render: ({ limit = MAX_LINES }, value) => text(renderWindow(value, limit)),
      presentationMeta(_args, { path, offset, lines, totalLines }) {
        const lang = languageOf(path)
        return { path, offset, lines, totalLines, ...(lang !== undefined && { lang }) }
      }
    },
    async execute({ file_path, offset = 1, limit = MAX_LINES }, { agent, signal }) {
      if (file_path.trim() === '') throw new Error('file_path is blank')
      if (!isLineNumber(offset)) throw new Error('offset must be a whole number from 1')
      if (!isLineNumber(limit) || limit > MAX_LINES)
        throw new Error(`limit must be a whole number from 1 to ${MAX_LINES}`)
      const target = await resolveInWorkspace({ files, workspaces }, file_path, agent)
      const window = new LineWindow(offset, limit)
      const { version } = await files
        .streamText(target, (piece) => window.write(piece), signal)
        .catch((error: unknown) => {
          const isMissing = error instanceof FileError && error.code === 'FS_NOT_FOUND'
          if (isMissing) observations.observe(agent, target.targetKey, { state: 'absent' })
          throw error
        })
      window.end()
      const { lines, totalLines } = window
      if (offset > Math.max(totalLines, 1)) {
        throw new FileError(
          'FS_NOT_FOUND',
          `${target.displayPath}: has ${totalLines} lines, there is no line ${offset}`
        )
      }
      observations.observe(agent, target.targetKey, { state: 'present', version })
      return { path: target.displayPath, offset, lines, totalLines }
    },
    isConcurrencySafe: () => true,
    idempotent: true,
    presentCall({ file_path, offset, limit }) {
      if ([offset, limit].some((number) => number !== undefined && !isLineNumber(number))) return undefined
      const first = offset ?? 1
      const range =
        limit !== undefined ? ` (${first} - ${first + limit - 1})` : offset !== undefined ? ` (from line ${first})` : ''
      return {
        card: 'generic',
        kind: 'read',
        title: `Read ${file_path}${range}`,
        locations: [{ path: file_path, line: first }]
      }
    },
    presentResult: (_args, result) => readCard(result)
  })
}

const isLineNumber = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 1

/** A card out of what was stored, which may be old or damaged: then there is none (backends.md §1). */
function readCard({ content, isError, meta }: PresentedResult): ResultCard | undefined {
  const [block] = content
  if (isError || block?.type !== 'text' || typeof block['text'] !== 'string' || content.length !== 1) return undefined
  if (typeof meta !== 'object' || meta === null || Array.isArray(meta)) return undefined
  const { path, offset, lines, totalLines, lang } = meta
  if (typeof path !== 'string' || !isLineNumber(offset) || !Array.isArray(lines)) return undefined
  if (totalLines !== 0 && !isLineNumber(totalLines)) return undefined
  const numbered = lines.flatMap((line) => numberedLine(line) ?? [])
  const areInOrder = numbered.every(
    ({ number }, at) => number >= offset && number <= totalLines && number > (numbered[at - 1]?.number ?? 0)
  )
  const body = windowBody(block['text'], path)
  if (numbered.length !== lines.length || !areInOrder || body === undefined) return undefined
  const language = typeof lang === 'string' ? { lang } : {}
  return { card: 'read', path, offset, lines: numbered, totalLines, ...language, content: body }
}

function numberedLine(line: JsonValue) {
  if (typeof line !== 'object' || line === null || Array.isArray(line)) return undefined
  const { number, text } = line
  return isLineNumber(number) && typeof text === 'string' ? { number, text } : undefined
}

export default definePlugin({ name: 'read', needs: ['files', 'workspaces', 'observations'] }, (tools, services) => {
  tools.register(readTool(services))
})
