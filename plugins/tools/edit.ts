import { text } from '../../server/authoring/content.ts'
import { defineTool } from '../../server/authoring/define-tool.ts'
import type { ToolDefinition } from '../../server/tools/definition.ts'
import { definePlugin } from '../define-plugin.ts'
import { diffCard, diffMeta } from './diff-card.ts'
import { assertNoEscalation, escalationParameters } from './escalation.ts'
import { changeFile, type FileServices } from './file-change.ts'

/** The tool `edit` (backends.md §6.6): a literal replacement in a text file. */
export function editTool(services: FileServices): ToolDefinition {
  return defineTool({
    name: 'edit',
    description:
      'Replaces text in a file. old_string is literal and must be in the file exactly once, so take enough of its surroundings, ' +
      'or set replace_all. The file must have been read in this session, and not have changed since.',
    parameters: {
      file_path: { type: 'string', required: true, description: "The file; relative to the session's directory." },
      old_string: { type: 'string', required: true, description: 'The text to replace, without line numbers.' },
      new_string: { type: 'string', required: true, description: 'What takes its place.' },
      replace_all: { type: 'boolean', description: 'Every occurrence instead of the only one.' },
      ...escalationParameters(services.sandboxPolicies)
    },
    output: {
      schema: {
        type: 'object',
        additionalProperties: false,
        properties: {
          path: { type: 'string', required: true },
          before: {
            oneOf: [{ type: 'string' }, { type: 'null' }],
            required: true,
            description: 'What the file held; null if it is large.'
          },
          after: { type: 'string', required: true }
        }
      },
      render: ({ replace_all }, { path }) =>
        text(replace_all === true ? `Every occurrence in ${path} was replaced.` : `The text in ${path} was replaced.`),
      presentationMeta: (_args, { path, before, after }) => diffMeta(path, before, after)
    },
    async execute(args, exec) {
      assertNoEscalation(args, services.sandboxPolicies)
      const { file_path, old_string, new_string, replace_all = false } = args
      if (old_string === '') throw new Error('old_string is empty')
      // Line endings count as equal in edits, so what differs in them alone would do nothing.
      if (old_string.replaceAll('\r\n', '\n') === new_string.replaceAll('\r\n', '\n')) {
        throw new Error('old_string and new_string are the same')
      }
      const { path, before, after } = await changeFile(
        services,
        { path: file_path, kind: 'edit', escalation: args },
        exec,
        (target, options) =>
          services.files.editText(target, { replace: old_string, with: new_string, all: replace_all }, options)
      )
      return { path, before, after }
    },
    presentCall: ({ file_path, old_string, new_string }) => ({
      card: 'diff',
      title: `Edit ${file_path}`,
      diffs: [{ path: file_path, oldText: old_string, newText: new_string }],
      locations: [{ path: file_path }]
    }),
    presentResult: (_args, { isError, meta }) => (isError ? undefined : diffCard(meta, 'Edit'))
  })
}

export default definePlugin(
  { name: 'edit', needs: ['files', 'workspaces', 'observations', 'sandboxPolicies'] },
  (tools, services) => {
    tools.register(editTool(services))
  }
)
