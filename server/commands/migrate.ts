import { configFromArguments } from '../command-line.ts'
import { migrateLog } from '../event-log/sqlite/migrate-log.js'

/** `toolwright migrate`: brings the database up to date before a start does; a copy of it is made beside it first. */
export function migrate(args: readonly string[], env: NodeJS.ProcessEnv): void {
  const { config } = configFromArguments(args, env)
  const { from, to } = migrateLog(config.home)
  const what = from === to ? `has version ${to} already` : `was brought from version ${from} to ${to}`
  process.stdout.write(`The event log in ${config.home} ${what}\n`)
}
