import { approvals } from './approvals.ts'
import { backup } from './backup.ts'
import type { Command } from './command.ts'
import { config } from './config.ts'
import { events } from './events.ts'
import { exportSession } from './export.ts'
import { importTools } from './import.ts'
import { invoke } from './invoke.ts'
import { mcp } from './mcp.ts'
import { migrate } from './migrate.ts'
import { schemas } from './schemas.ts'
import { serve } from './serve.ts'
import { sessions } from './sessions.ts'
import { token } from './token.ts'
import { tools } from './tools.ts'
import { verify } from './verify.ts'

/** Every command, in the order in which the help lists them. */
export const commands: ReadonlyMap<string, Command> = new Map(
  [
    serve,
    invoke,
    tools,
    schemas,
    importTools,
    sessions,
    events,
    exportSession,
    approvals,
    mcp,
    token,
    backup,
    verify,
    migrate,
    config
  ].map((command) => [command.name, command])
)
