import { text } from '../../server/authoring/content.ts'
import { defineTool } from '../../server/authoring/define-tool.ts'
import type { ToolDefinition } from '../../server/tools/definition.ts'
import { definePlugin } from '../define-plugin.ts'
import { diffCard, diffMeta } from './diff-card.ts'
import { assertNoEscalation, escalationParameters } from './escalation.ts'
import { changeFile, type FileServices } from './file-change.ts'
import { fileEnvelope } from './read-text.ts'

/** The tool `write` (backends.md §6.5): a whole file. */
export function writeTool(services: FileServices): ToolDefinition {
  return defineTool({
    name: 'write',
    description:
      'Writes a whole text file, and makes the directories it needs. A file that exists must have been read in this session, and not ' +
      'have changed since. To change a part of a file, edit is better.',
    parameters: {
      file_path: { type: 'string', required: true, description: "The file; relative to the session's directory." },
      content: { type: 'string', required: true, description: 'All that the file shall hold.' },
      ...escalationParameters(services.sandboxPolicies)
    },
    output: {
      schema: {
        type: 'object',
        additionalProperties: false,
        properties: {
          path: { type: 'string', required: true },
          operation: { type: 'string', enum: ['create', 'update'], required: true },
          before: {
            oneOf: [{ type: 'string' }, { type: 'null' }],
            required: true,
            description: 'What the file held; null if it is new, was not text, or is large.'
          },
          after: { type: 'string', required: true }
        }
      },
      render: (_args, { path, operation }) =>
        text(fileEnvelope(path, operation === 'create' ? 'The file was created.' : 'The file was updated.')),
      presentationMeta: (_args, { path, before, after }) => diffMeta(path, before, after)
    },
    async execute(args, exec) {
      assertNoEscalation(args, services.sandboxPolicies)
      const { path, operation, before, after } = await changeFile(
        services,
        { path: args.file_path, kind: 'write', escalation: args },
        exec,
        (target, options) => services.files.writeText(target, args.content, options)
      )
      return { path, operation, before, after }
    },
    presentCall: ({ file_path, content }) => ({
      card: 'diff',
      title: `Write ${file_path}`,
      diffs: [{ path: file_path, oldText: null, newText: content }],
      locations: [{ path: file_path }]
    }),
    presentResult({ file_path, content }, { isError, meta }) {
      if (isError) return undefined
      const whole = { card: 'diff' as const, diffs: [{ path: file_path, oldText: null, newText: content }] }
      return diffCard(meta, 'Write') ?? whole
    }
  })
}

export default definePlugin(
  { name: 'write', needs: ['files', 'workspaces', 'observations', 'sandboxPolicies'] },
  (tools, services) => {
    tools.register(writeTool(services))
  }
)
