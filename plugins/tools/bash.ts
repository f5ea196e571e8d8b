import type { ToolDefinition } from '../../server/tools/definition.ts'
import { definePlugin } from '../define-plugin.ts'
import { type ShellServices, shellTool } from './shell-tool.ts'

/** The tool `bash` (backends.md §3.2). */
export function bashTool(services: ShellServices): ToolDefinition {
  return shellTool(
    {
      name: 'bash',
      description:
        'Runs a command with bash and returns its output and exit code. Each call is a new shell: directory, variables and ' +
        'functions do not carry over; pass workdir instead of using cd. There is no terminal and nothing to type into. A ' +
        'non-zero exit is not an error of the tool. Long output is cut at the beginning; the whole of it is kept in a file.',
      command: 'The command, as bash reads it.'
    },
    services
  )
}

export default definePlugin(
  { name: 'bash', needs: ['shell', 'workspaces', 'sandboxPolicies', 'jobs'] },
  (tools, { jobs, ...services }, { enableRunInBackground = true }: { enableRunInBackground?: boolean }) => {
    tools.register(bashTool({ ...services, ...(enableRunInBackground && { jobs }) }))
  }
)
