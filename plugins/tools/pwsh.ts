import type { ToolDefinition } from '../../server/tools/definition.ts'
import { definePlugin } from '../define-plugin.ts'
import { type ShellServices, shellTool } from './shell-tool.ts'

/** The tool `pwsh` (backends.md §3.3): as `bash`, with a PowerShell executor for its shell. */
export function pwshTool(services: ShellServices): ToolDefinition {
  return shellTool(
    {
      name: 'pwsh',
      description:
        'Runs a command with PowerShell and returns its output and exit code. Each call is a new PowerShell without profile: location, ' +
        'variables and functions do not carry over; pass workdir instead of using Set-Location. There is no terminal and nothing to ' +
        'type into or to ask for. A non-zero exit is not an error of the tool; for the exit code of a program, end on exit ' +
        '$LASTEXITCODE. Long output is cut at the beginning; the whole of it is kept in a file.',
      command: 'The command, as PowerShell reads it.'
    },
    services
  )
}

export default definePlugin(
  { name: 'pwsh', needs: ['shell', 'workspaces', 'sandboxPolicies', 'jobs'] },
  (tools, { jobs, ...services }, { enableRunInBackground = true }: { enableRunInBackground?: boolean }) => {
    tools.register(pwshTool({ ...services, ...(enableRunInBackground && { jobs }) }))
  }
)
