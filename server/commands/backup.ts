import { configFromArguments } from '../command-line.ts'
import { backupLog } from '../event-log/sqlite/backup-log.js'
import { splitArguments } from './arguments.ts'

/** `toolwright backup FILE`: a verified copy of the log, also while the server runs (docs/storage.md). */
export async function backup(args: readonly string[], env: NodeJS.ProcessEnv): Promise<void> {
  const { positionals, options } = splitArguments(args, { least: 1, most: 1, usage: 'backup FILE [options]' })
  const [file = ''] = positionals
  const { config } = configFromArguments(options, env)
  const { sessions, events } = await backupLog(config.home, file)
  process.stdout.write(`${file}: ${sessions} sessions, ${events} events, verified\n`)
}
