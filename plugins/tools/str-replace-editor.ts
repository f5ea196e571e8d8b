import { isAbsolute } from 'node:path'
import { text } from '../../server/authoring/content.ts'
import { defineTool } from '../../server/authoring/define-tool.ts'
import { FileError, type TextEdit } from '../../server/backends/files/files.ts'
import type { RunContext } from '../../server/pipeline/execution.ts'
import type { CallCard, ToolDefinition } from '../../server/tools/definition.ts'
import { definePlugin } from '../define-plugin.ts'
import { assertUnconfined, changeFile, type FileServices } from './file-change.ts'
import { clip, listTwoLevels, NumberedLines } from './str-replace-editor-view.ts'
import { resolveInWorkspace } from './workspace-path.ts'

interface Args {
  command: 'view' | 'create' | 'str_replace' | 'insert'
  path: string
  file_text?: string
  insert_line?: number
  new_str?: string
  old_str?: string
  view_range?: number[]
}

/** The tool `str_replace_editor` (backends.md §6.9): view, create and edit in the form that some models were trained on. */
export function strReplaceEditorTool(services: FileServices): ToolDefinition {
  return defineTool({
    name: 'str_replace_editor',
    description:
      'Views, creates and edits text files. view shows a file with line numbers, or a directory two levels deep. create makes a ' +
      'new file. str_replace replaces old_str, which must be in the file exactly once, byte for byte. insert puts new_str behind ' +
      'a line, and adds no newline. A file must have been viewed or read before it is edited.',
    parameters: {
      command: { type: 'string', enum: ['view', 'create', 'str_replace', 'insert'], required: true },
      path: { type: 'string', required: true, description: 'An absolute path.' },
      file_text: { type: 'string', description: 'For create: all that the file shall hold.' },
      insert_line: { type: 'integer', description: 'For insert: the line to insert behind; 0 is the top.' },
      new_str: { type: 'string', description: 'For insert, and for str_replace, where its absence deletes.' },
      old_str: { type: 'string', description: 'For str_replace: the text to replace, without line numbers.' },
      view_range: {
        type: 'array',
        items: { type: 'integer' },
        description: 'For view: the first and the last line, from 1; -1 is the end.'
      }
    },
    output: { schema: { type: 'string' }, render: (_args, answer) => text(answer) },
    async execute(args: Args, exec) {
      assertUnconfined(args)
      if (!isAbsolute(args.path)) throw new Error('path must be absolute')
      if (args.command === 'view') return clip(await view(services, args, exec))
      if (args.command === 'create') return create(services, args, exec)
      return change(services, { path: args.path, edit: editOf(args) }, exec)
    },
    presentCall: callCard
  })
}

async function view(
  services: FileServices,
  { path, view_range }: Args,
  { agent, signal }: RunContext
): Promise<string> {
  const { files, observations } = services
  const target = await resolveInWorkspace(services, path, agent)
  const [first, last] = rangeOf(view_range)
  const lines = new NumberedLines(first, last)
  try {
    const { version } = await files.streamText(target, (piece) => lines.write(piece), signal)
    observations.observe(agent, target.targetKey, { state: 'present', version })
  } catch (error) {
    if (!(error instanceof FileError)) throw error
    if (error.code === 'FS_NOT_FOUND') observations.observe(agent, target.targetKey, { state: 'absent' })
    if (error.code !== 'FS_NOT_REGULAR_FILE') throw error
    const listing = await listTwoLevels(files, target, signal).catch((failure: unknown) => {
      // Neither a file nor a directory: what the file was refused for is the better answer.
      throw failure instanceof FileError && failure.code === 'FS_NOT_DIRECTORY' ? error : failure
    })
    if (view_range !== undefined) throw new Error('view_range is for files, and this is a directory', { cause: error })
    return `${target.displayPath}, two levels deep, without what is hidden:\n${listing}`
  }
  const { totalLines } = lines
  if (first > totalLines || (last !== Infinity && last > totalLines)) {
    throw new Error(`view_range must lie between 1 and ${totalLines}, the number of lines`)
  }
  return `${target.displayPath}, ${totalLines} ${totalLines === 1 ? 'line' : 'lines'} in total:\n${lines.text}`
}

function rangeOf(range: number[] | undefined): [first: number, last: number] {
  if (range === undefined) return [1, Infinity]
  const [first, last] = range
  if (range.length !== 2 || first === undefined || last === undefined) throw new Error('view_range is two line numbers')
  if (first < 1 || (last !== -1 && last < first)) {
    throw new Error('view_range begins at 1 or later, and ends at its beginning or later, or with -1')
  }
  return [first, last === -1 ? Infinity : last]
}

async function create(services: FileServices, { path, file_text }: Args, exec: RunContext): Promise<string> {
  if (file_text === undefined) throw new Error('create needs file_text')
  const made = await changeFile(services, { path, kind: 'write' }, exec, (target, options) =>
    services.files
      .writeText(target, file_text, { ...options, guard: () => ({ kind: 'createIfAbsent' }) })
      .catch((error: unknown) => {
        if (!(error instanceof FileError) || error.code !== 'FS_NOT_OBSERVED') throw error
        throw new FileError(error.code, `${target.displayPath}: exists already; create makes new files only`)
      })
  )
  return `${made.path} was created.`
}

function editOf({ command, old_str, new_str, insert_line }: Args): TextEdit {
  if (command === 'str_replace') {
    if (old_str === undefined || old_str === '') throw new Error('str_replace needs an old_str that is not empty')
    if (old_str === new_str) throw new Error('old_str and new_str are the same')
    return { replace: old_str, with: new_str ?? '', exact: true }
  }
  if (new_str === undefined) throw new Error('insert needs new_str')
  if (insert_line === undefined || insert_line < 0) throw new Error('insert needs an insert_line of 0 or more')
  return { insert: new_str, afterLine: insert_line }
}

async function change(
  services: FileServices,
  { path, edit }: { path: string; edit: TextEdit },
  exec: RunContext
): Promise<string> {
  const { files, observations } = services
  const changed = await changeFile(services, { path, kind: 'edit' }, exec, async (target, options) => {
    await files.facts(target, exec.signal).catch((error: unknown) => {
      const isMissing = error instanceof FileError && error.code === 'FS_NOT_FOUND'
      if (isMissing) observations.observe(exec.agent, target.targetKey, { state: 'absent' })
      throw error
    })
    return files.editText(target, edit, options)
  })
  return `${changed.path} was edited.`
}

function callCard({ command, path, file_text, old_str, new_str, insert_line }: Args): CallCard | undefined {
  const locations = [{ path }]
  switch (command) {
    case 'view':
      return { card: 'generic', kind: 'read', title: `View ${path}`, locations }
    case 'create':
      if (file_text === undefined) return undefined
      return { card: 'diff', title: `Create ${path}`, diffs: [{ path, oldText: null, newText: file_text }], locations }
    case 'str_replace':
      if (old_str === undefined) return undefined
      return {
        card: 'diff',
        title: `Edit ${path}`,
        diffs: [{ path, oldText: old_str, newText: new_str ?? '' }],
        locations
      }
    case 'insert':
      if (insert_line === undefined || insert_line < 0) return undefined
      return {
        card: 'generic',
        kind: 'edit',
        title: `Insert into ${path}`,
        locations: [{ path, line: insert_line }],
        ...(new_str !== undefined && { content: text(new_str) })
      }
  }
}

export default definePlugin(
  { name: 'str-replace-editor', needs: ['files', 'workspaces', 'observations'] },
  (tools, services) => {
    tools.register(strReplaceEditorTool(services))
  }
)
