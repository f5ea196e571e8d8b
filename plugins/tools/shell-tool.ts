import { AbortError } from '../../server/errors.ts'
import { resolve } from 'node:path'
import { text } from '../../server/authoring/content.ts'
import { defineTool } from '../../server/authoring/define-tool.ts'
import type { Workspaces } from '../../server/backends/files/workspaces.ts'
import type { Jobs } from '../../server/backends/jobs/jobs.ts'
import { type SandboxPolicies, sandboxModes } from '../../server/backends/sandbox/sandbox.ts'
import type { Shell } from '../../server/backends/shell/shell.ts'
import type { ToolDefinition } from '../../server/tools/definition.ts'
import { backgroundParameters, commandWork, isForBackground } from './command-background.ts'
import { parseCommand, renderCommand } from './command-text.ts'
import { assertNoEscalation, escalationParameters } from './escalation.ts'

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

const foreground = {
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
    stderr: output,
    sandbox: {
      type: 'object',
      additionalProperties: false,
      description: 'What is known of the sandbox it ran in.',
      properties: {
        mode: { type: 'string', enum: sandboxModes, required: true },
        denied: { type: 'boolean', required: true, description: 'It failed as a file was closed to it.' },
        enforcement: { type: 'string', enum: ['full', 'partial'] },
        runnerFailed: { type: 'boolean' }
      }
    }
  }
} as const

const background = {
  type: 'object',
  additionalProperties: false,
  properties: {
    kind: { type: 'string', const: 'background', required: true },
    jobId: { type: 'string', required: true }
  }
} as const

const anywhere = { oneOf: [foreground, background] } as const

export interface ShellServices {
  shell: Shell
  workspaces: Workspaces
  /** Absent: nothing is confined. */
  sandboxPolicies?: SandboxPolicies
  /** Absent: nothing runs in the background. */
  jobs?: Jobs
}

/** What one shell's tool has of its own. */
export interface ShellWords {
  /** The tool's name; its jobs are called by it too. */
  name: string
  description: string
  /** What the parameter `command` is. */
  command: string
}

/** A tool that runs commands (backends.md §3.2, §3.3): each in a fresh shell, waited for or as a job. */
export function shellTool(
  { name, description, command }: ShellWords,
  { shell, workspaces, sandboxPolicies, jobs }: ShellServices
): ToolDefinition {
  const canEscalate = sandboxPolicies?.isConfining === true && sandboxPolicies.escalations.length > 0
  return defineTool({
    name,
    description,
    parameters: {
      command: { type: 'string', required: true, description: command },
      description: { type: 'string', required: true, description: 'What it does, in a few words, for people.' },
      timeoutMs: { type: 'number', description: 'Milliseconds after which the command is ended.' },
      workdir: {
        type: 'string',
        description: "Where it runs; relative to the session's directory, which is the default."
      },
      ...backgroundParameters(jobs),
      ...escalationParameters(sandboxPolicies)
    },
    output: {
      // A program that may not start jobs need not tell them apart.
      schema: jobs === undefined ? (foreground as never as typeof anywhere) : anywhere,
      render: (_args, value) =>
        text(
          value.kind === 'background' ? `started background job ${value.jobId}` : renderCommand(value, { canEscalate })
        )
    },
    async execute(args, exec) {
      assertUsable(args)
      assertNoEscalation(args, sandboxPolicies)
      const { agent, signal } = exec
      const inBackground = isForBackground(args)
      if (inBackground && jobs?.isServed(agent) !== true) throw new Error('commands cannot run in the background here')
      const cwd = await workspaces.cwdOf(agent)
      const spillDirectory = workspaces.spillDirectoryOf?.(agent)
      const policy = await sandboxPolicies?.policyFor(exec, args, 'command')
      const spec = shell.resolve({
        command: args.command,
        workdir: resolve(cwd, args.workdir ?? ''),
        managedEnv: {
          TOOLWRIGHT_SHELL: '1',
          ...(workspaces.home !== undefined && { TOOLWRIGHT_HOME: workspaces.home }),
          ...(agent && { TOOLWRIGHT_SESSION_ID: agent.id })
        },
        ...(args.timeoutMs !== undefined && { timeoutMs: args.timeoutMs }),
        ...(spillDirectory !== undefined && { spillDirectory }),
        ...(policy !== undefined && { policy })
      })
      if (inBackground && jobs !== undefined) {
        if (signal.aborted) throw new AbortError()
        const { id: jobId } = jobs.start({
          kind: name,
          label: args.command,
          ...(agent && { owner: agent }),
          run: () => commandWork(shell.start(spec))
        })
        return { kind: 'background' as const, jobId }
      }
      // An aborted run is a value too: the pipeline turns it into ABORTED or TOOL_TIMEOUT, whichever it was.
      return {
        kind: 'foreground' as const,
        ...(await shell.run(spec, { signal, onOutput: (chunk) => exec.progress(chunk) }))
      }
    },
    presentCall({ command, description, workdir, ...others }) {
      if (isForBackground(others)) {
        return {
          card: 'generic',
          title: command,
          kind: 'execute',
          rawInput: command,
          content: text(description)
        }
      }
      return { card: 'terminal', title: command, description, ...(workdir !== undefined && { cwd: workdir }) }
    },
    presentResult(args, { content, isError }) {
      const [block, ...more] = content
      if (block?.type !== 'text' || typeof block['text'] !== 'string' || more.length > 0) return undefined
      if (isError || isForBackground(args)) return { card: 'generic', content: text(fenced(block['text'])) }
      return { card: 'terminal', ...parseCommand(block['text']) }
    }
  })
}

/** What schemas cannot say. Nothing has run yet. */
function assertUsable(args: { command: string; description: string; timeoutMs?: number }): void {
  if (args.command.trim() === '') throw new Error('command is blank')
  if (args.description.trim() === '') throw new Error('description is blank')
  const { timeoutMs } = args
  if (timeoutMs !== undefined && !(timeoutMs > 0)) throw new Error('timeoutMs must be more than 0')
}

/** A fence longer than any in the text, which so cannot break out of it. */
function fenced(content: string): string {
  const longest = Math.max(2, ...(content.match(/`+/g) ?? []).map((run) => run.length))
  const fence = '`'.repeat(longest + 1)
  return `${fence}console\n${content}${content.endsWith('\n') ? '' : '\n'}${fence}`
}
