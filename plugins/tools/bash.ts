import { resolve } from 'node:path'
import { text } from '../../server/authoring/content.ts'
import { defineTool } from '../../server/authoring/define-tool.ts'
import type { Workspaces } from '../../server/backends/files/workspaces.ts'
import type { Shell } from '../../server/backends/shell/shell.ts'
import type { ToolDefinition } from '../../server/tools/definition.ts'
import { definePlugin } from '../define-plugin.ts'
import { parseCommand, renderCommand } from './bash-text.ts'

const output = {
  type: 'object',
  additionalProperties: false,
  properties: {
    text: { type: 'string', required: true, description: 'The last part of the stream.' },
    truncated: { type: 'boolean', required: true },
    spillPath: { type: 'string', description: 'A file with the whole stream.' }
  },
  required: true
} as const

/** The tool `bash` (backends.md §3.2): one command in a fresh shell, in the foreground. */
export function bashTool({ shell, workspaces }: { shell: Shell; workspaces: Workspaces }): ToolDefinition {
  return defineTool({
    name: 'bash',
    description:
      'Runs a command with bash and returns its output and exit code. Each call is a new shell: directory, variables and ' +
      'functions do not carry over; pass workdir instead of using cd. There is no terminal and nothing to type into. A ' +
      'non-zero exit is not an error of the tool. Long output is cut at the beginning; the whole of it is kept in a file.',
    parameters: {
      command: { type: 'string', required: true, description: 'The command, as bash reads it.' },
      description: { type: 'string', required: true, description: 'What it does, in a few words, for people.' },
      timeoutMs: { type: 'number', description: 'Milliseconds after which the command is ended.' },
      workdir: {
        type: 'string',
        description: "Where it runs; relative to the session's directory, which is the default."
      }
    },
    output: {
      schema: {
        type: 'object',
        additionalProperties: false,
        properties: {
          kind: { type: 'string', const: 'foreground', required: true },
          exitCode: { oneOf: [{ type: 'integer' }, { type: 'null' }], required: true },
          signal: { oneOf: [{ type: 'string' }, { type: 'null' }], required: true },
          timedOut: { type: 'boolean', required: true },
          aborted: { type: 'boolean', required: true },
          timeoutMs: { type: 'number', required: true },
          stdout: output,
          stderr: output
        }
      },
      render: (_args, value) => text(renderCommand(value))
    },
    async execute(args, exec) {
      assertUsable(args)
      const { agent, signal } = exec
      const cwd = await workspaces.cwdOf(agent)
      const spillDirectory = workspaces.spillDirectoryOf?.(agent)
      const spec = shell.resolve({
        command: args.command,
        workdir: resolve(cwd, args.workdir ?? ''),
        managedEnv: {
          TOOLWRIGHT_SHELL: '1',
          ...(workspaces.home !== undefined && { TOOLWRIGHT_HOME: workspaces.home }),
          ...(agent && { TOOLWRIGHT_SESSION_ID: agent.id })
        },
        ...(args.timeoutMs !== undefined && { timeoutMs: args.timeoutMs }),
        ...(spillDirectory !== undefined && { spillDirectory })
      })
      // An aborted run is a value too: the pipeline turns it into ABORTED or TOOL_TIMEOUT, whichever it was.
      return {
        kind: 'foreground' as const,
        ...(await shell.run(spec, { signal, onOutput: (chunk) => exec.progress(chunk) }))
      }
    },
    presentCall: ({ command, description, workdir }) => ({
      card: 'terminal',
      title: command,
      description,
      ...(workdir !== undefined && { cwd: workdir })
    }),
    presentResult(_args, { content, isError }) {
      const [block, ...more] = content
      if (block?.type !== 'text' || typeof block['text'] !== 'string' || more.length > 0) return undefined
      if (isError) return { card: 'generic', content: text(fenced(block['text'])) }
      return { card: 'terminal', ...parseCommand(block['text']) }
    }
  })
}

/** What schemas cannot say. Nothing has run yet; undeclared arguments pass validation, so what is not offered is refused here. */
function assertUsable(args: { command: string; description: string; timeoutMs?: number }): void {
  if (args.command.trim() === '') throw new Error('command is blank')
  if (args.description.trim() === '') throw new Error('description is blank')
  const { timeoutMs, ...others } = args
  if (timeoutMs !== undefined && !(timeoutMs > 0)) throw new Error('timeoutMs must be more than 0')
  const extra = new Map<string, unknown>(Object.entries(others))
  if ((extra.get('run_in_background') ?? false) !== false) throw new Error('commands cannot run in the background here')
  for (const name of ['sandbox_permissions', 'justification']) {
    if (extra.has(name)) throw new Error(`${name} means nothing here: commands are not confined`)
  }
}

/** A fence longer than any in the text, which so cannot break out of it. */
function fenced(content: string): string {
  const longest = Math.max(2, ...(content.match(/`+/g) ?? []).map((run) => run.length))
  const fence = '`'.repeat(longest + 1)
  return `${fence}console\n${content}${content.endsWith('\n') ? '' : '\n'}${fence}`
}

export default definePlugin({ name: 'bash', needs: ['shell', 'workspaces'] }, (tools, services) => {
  tools.register(bashTool(services))
})
