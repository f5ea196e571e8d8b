import { parseArgs } from 'node:util'
import { type LoadedConfig, loadConfig } from './config/load.ts'

/** The command line is not understood; the process exits with 64 (EX_USAGE). */
export class UsageError extends Error {
  override readonly name = 'UsageError'
  readonly exitCode = 64
}

/** The options by which every command finds its configuration, as the help shows them. */
export const configOptionsHelp = `  --config FILE        configuration file, JSON (else TOOLWRIGHT_CONFIG)
  --home DIR           directory of all state
  --host ADDRESS       address to listen on
  --port NUMBER        port to listen on
  --allow-remote       permit an address that is not loopback
  --set PATH=VALUE     any setting, as --set http.bodyLimitBytes=1048576; repeatable
`

/** The configuration that a command's arguments, the environment and the file make. Throws `UsageError` or `ConfigError`. */
export function configFromArguments(args: readonly string[], env: NodeJS.ProcessEnv): LoadedConfig {
  const { values } = parse(args)
  const flags = new Map<string, string | true>()
  for (const setting of values.set ?? []) {
    const at = setting.indexOf('=')
    if (at < 1) throw new UsageError(`--set takes PATH=VALUE, not ${JSON.stringify(setting)}.`)
    flags.set(setting.slice(0, at), setting.slice(at + 1))
  }
  if (values.home !== undefined) flags.set('home', values.home)
  if (values.host !== undefined) flags.set('host', values.host)
  if (values.port !== undefined) flags.set('port', values.port)
  if (values['allow-remote']) flags.set('allowRemote', true)
  return loadConfig({ file: values.config, flags, env })
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      options: {
        config: { type: 'string' },
        home: { type: 'string' },
        host: { type: 'string' },
        port: { type: 'string' },
        'allow-remote': { type: 'boolean' },
        set: { type: 'string', multiple: true }
      }
    })
  } catch (error) {
    throw new UsageError((error as Error).message)
  }
}

/** Runs a command's body; a failure is one message on standard error and the exit code of its kind. */
export async function runCommand(command: () => Promise<void> | void): Promise<void> {
  try {
    await command()
  } catch (error) {
    const { message, exitCode } = error as Error & { exitCode?: unknown }
    process.stderr.write(`toolwright: ${message}\n`)
    process.exit(typeof exitCode === 'number' ? exitCode : 1)
  }
}
