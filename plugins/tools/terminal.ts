import { resolve } from 'node:path'
import { text } from '../../server/authoring/content.ts'
import { defineTool } from '../../server/authoring/define-tool.ts'
import type { Workspaces } from '../../server/backends/files/workspaces.ts'
import type { Jobs } from '../../server/backends/jobs/jobs.ts'
import type { SandboxPolicies } from '../../server/backends/sandbox/sandbox.ts'
import { type Terminals, terminalSignals } from '../../server/backends/terminals/terminals.ts'
import type { ToolDefinition } from '../../server/tools/definition.ts'
import { definePlugin } from '../define-plugin.ts'
import { agentOf, finalizeWithin, sessionId, terminalStatus } from './terminal-parts.ts'
import { terminalSend } from './terminal-send.ts'
import { renderOpened, renderPage, renderTerminals } from './terminal-text.ts'

const info = {
  sessionId: { type: 'string', required: true },
  name: { type: 'string' },
  type: { type: 'string', required: true },
  pid: { type: 'integer' },
  status: { ...terminalStatus, required: true }
} as const

const defaultCount = 500

export interface TerminalServices {
  terminals: Terminals
  workspaces: Workspaces
  /** Absent: nothing is sent in the background. */
  jobs?: Jobs
  /** Absent: nothing is confined. */
  sandboxPolicies?: SandboxPolicies
}

/** The tools `terminal_*` (backends.md §5.3). `maxResultBytes`, at least 64, bounds the text of every result of theirs. */
export function terminalTools(
  { terminals, workspaces, jobs, sandboxPolicies }: TerminalServices,
  { maxResultBytes }: { maxResultBytes: number }
): ToolDefinition[] {
  const finalizeContent = finalizeWithin(maxResultBytes)
  return [
    defineTool({
      name: 'terminal_open',
      description:
        'Opens a terminal: a shell that lives on between calls, with its directory, variables and running programs. For programs that ' +
        'are talked to or go on running; use bash for single commands. Output is plain text: full-screen programs do not work.',
      parameters: {
        type: { type: 'string', required: true, description: 'What runs in it: `shell`, an interactive bash.' },
        name: { type: 'string', description: 'A label, yours to choose; terminals are addressed by their id only.' },
        cwd: {
          type: 'string',
          description: "Where it starts; relative to the session's directory, which is the default."
        }
      },
      output: {
        schema: {
          type: 'object',
          additionalProperties: false,
          properties: { ...info, motd: { type: 'string', required: true } }
        },
        render: (_args, value) => text(renderOpened(value, maxResultBytes))
      },
      async execute({ type, name, cwd = '' }, exec) {
        const agent = agentOf(exec)
        const workdir = resolve(await workspaces.cwdOf(agent), cwd)
        return terminals.open(
          agent,
          {
            type,
            ...(name !== undefined && { name }),
            cwd: workdir,
            managedEnv: {
              TOOLWRIGHT_SHELL: '1',
              TOOLWRIGHT_SESSION_ID: agent.id,
              ...(workspaces.home !== undefined && { TOOLWRIGHT_HOME: workspaces.home })
            },
            ...(sandboxPolicies !== undefined && {
              // Asked when the terminal counts already: from then on the mode of its session does not change (backends.md §5.2).
              launch: async (argv) => {
                const policy = await sandboxPolicies.policyFor(exec, {}, 'command')
                return sandboxPolicies.wrap(argv, policy, { workdir, isTerminal: true })
              }
            })
          },
          exec.signal
        )
      },
      finalizeContent,
      presentCall: ({ type, name, cwd }) => ({
        card: 'generic',
        title: `Open terminal${name === undefined ? '' : ` ${name}`}`,
        kind: 'execute',
        rawInput: { type, ...(cwd !== undefined && { cwd }) }
      })
    }),
    terminalSend(terminals, jobs, maxResultBytes),
    defineTool({
      name: 'terminal_read',
      description:
        'Returns lines that a terminal has shown. They are counted back from the newest: offset 0 and count 20 are the last 20. ' +
        'Reading types nothing and takes nothing away.',
      parameters: {
        sessionId,
        offset: { type: 'integer', description: 'Newest lines to leave out; 0 unless given.' },
        count: { type: 'integer', description: `Lines at most; ${defaultCount} unless given.` }
      },
      output: {
        schema: {
          type: 'object',
          additionalProperties: false,
          properties: {
            text: { type: 'string', required: true },
            totalLines: { type: 'integer', required: true },
            lineBegin: { type: 'integer', required: true },
            lineEnd: { type: 'integer', required: true },
            truncated: { type: 'boolean', required: true }
          }
        },
        render: (_args, value) => text(renderPage(value, maxResultBytes))
      },
      async execute({ sessionId, offset = 0, count = defaultCount }, exec) {
        if (offset < 0) throw new Error('offset must not be negative')
        if (count < 1) throw new Error('count must be at least 1')
        return terminals.read(agentOf(exec), sessionId, offset, count)
      },
      finalizeContent,
      presentCall: ({ sessionId }) => ({
        card: 'generic',
        title: `Read terminal ${sessionId}`,
        kind: 'read',
        rawInput: sessionId
      })
    }),
    defineTool({
      name: 'terminal_signal',
      description: 'Sends a signal to the program in the foreground of a terminal. Use SIGINT to interrupt a command.',
      parameters: { sessionId, signal: { type: 'string', enum: terminalSignals, required: true } },
      output: {
        schema: {
          type: 'object',
          additionalProperties: false,
          properties: {
            delivered: { type: 'boolean', const: true, required: true },
            targetPgid: { type: 'integer', required: true }
          }
        },
        render: ({ signal }, { targetPgid }) => text(`sent ${signal} to process group ${targetPgid}`)
      },
      execute: async ({ sessionId, signal }, exec) => ({
        delivered: true as const,
        targetPgid: await terminals.signal(agentOf(exec), sessionId, signal)
      }),
      finalizeContent,
      presentCall: ({ sessionId, signal }) => ({
        card: 'generic',
        title: `${signal} to terminal ${sessionId}`,
        kind: 'execute',
        rawInput: sessionId
      })
    }),
    defineTool({
      name: 'terminal_close',
      description: 'Closes a terminal and ends everything that runs in it.',
      parameters: { sessionId },
      output: {
        schema: {
          type: 'object',
          additionalProperties: false,
          properties: {
            sessionId: { type: 'string', required: true },
            outcome: { type: 'string', enum: ['closed', 'already-closing'], required: true }
          }
        },
        render: (_args, { sessionId, outcome }) =>
          text(outcome === 'closed' ? `closed terminal ${sessionId}` : `terminal ${sessionId} was being closed already`)
      },
      execute: async ({ sessionId }, exec) => ({
        sessionId,
        outcome: await terminals.close(agentOf(exec), sessionId)
      }),
      finalizeContent,
      presentCall: ({ sessionId }) => ({
        card: 'generic',
        title: `Close terminal ${sessionId}`,
        kind: 'delete',
        rawInput: sessionId
      })
    }),
    defineTool({
      name: 'terminal_list',
      description: 'Lists the open terminals of this session.',
      parameters: {},
      output: {
        schema: { type: 'array', items: { type: 'object', additionalProperties: false, properties: info } },
        render: (_args, value) => text(renderTerminals(value))
      },
      execute: (_args, exec) => terminals.list(agentOf(exec)),
      finalizeContent,
      presentCall: () => ({ card: 'generic', title: 'Terminals', kind: 'read' })
    })
  ]
}

export default definePlugin(
  { name: 'terminal', needs: ['terminals', 'workspaces', 'jobs', 'sandboxPolicies'] },
  (
    tools,
    { jobs, ...services },
    { maxResultBytes, enableRunInBackground }: { maxResultBytes: number; enableRunInBackground: boolean }
  ) => {
    const all = terminalTools({ ...services, ...(enableRunInBackground && { jobs }) }, { maxResultBytes })
    for (const tool of all) tools.register(tool)
  }
)
