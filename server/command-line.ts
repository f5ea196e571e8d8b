import { parseArgs } from 'node:util'
import { type LoadedConfig, loadConfig } from './config/load.ts'
import { settings } from './config/schema.ts'

/** The command line is not understood; the process exits with 64 (EX_USAGE). */
export class UsageError extends Error {
  override readonly name = 'UsageError'
  readonly exitCode = 64
}

/** One option of a command: what is parsed and what the help says are made from this alone. */
export interface Option {
  readonly type: 'string' | 'boolean'
  readonly multiple?: boolean
  /** What its value is called in the help, as `FILE`; none of a boolean. */
  readonly value?: string
  readonly description: string
}

/** Options by their long names. */
export type Options = Readonly<Record<string, Option>>

/** What was given for each option; one that was not is absent. */
export type OptionValues<O extends Options> = {
  -readonly [K in keyof O]?: O[K]['type'] extends 'boolean'
    ? boolean
    : O[K]['multiple'] extends true
      ? string[]
      : string
}

/** The options by which a command finds its configuration. */
export const configOptions = {
  config: { type: 'string', value: 'FILE', description: 'Configuration file, JSON (else TOOLWRIGHT_CONFIG).' },
  home: { type: 'string', value: 'DIR', description: 'Directory of all state.' },
  host: { type: 'string', value: 'ADDRESS', description: 'Address to listen on.' },
  port: { type: 'string', value: 'NUMBER', description: 'Port to listen on.' },
  'allow-remote': { type: 'boolean', description: 'Permit an address that is not loopback.' },
  set: {
    type: 'string',
    multiple: true,
    value: 'PATH=VALUE',
    description: 'Any setting, as --set http.bodyLimitBytes=1048576; repeatable.'
  }
} as const satisfies Options

/** The configuration that a command's arguments, the environment and the file make. Throws `UsageError` or `ConfigError`. */
export function configFromArguments(args: readonly string[], env: NodeJS.ProcessEnv): LoadedConfig {
  return configFromOptions(parseOptions(args, configOptions).values, env)
}

/** As `configFromArguments`, of options that are parsed already. */
export function configFromOptions(values: OptionValues<typeof configOptions>, env: NodeJS.ProcessEnv): LoadedConfig {
  const flags = new Map<string, string | true>()
  for (const setting of values.set ?? []) {
    const at = setting.indexOf('=')
    if (at < 1) throw new UsageError('--set takes PATH=VALUE.')
    const path = setting.slice(0, at)
    // Everybody on the machine sees the arguments of a process.
    if (settings.get(path)?.isSecret) throw new UsageError(`${path} is a secret, which is never an argument.`)
    flags.set(path, setting.slice(at + 1))
  }
  if (values.home !== undefined) flags.set('home', values.home)
  if (values.host !== undefined) flags.set('host', values.host)
  if (values.port !== undefined) flags.set('port', values.port)
  if (values['allow-remote']) flags.set('allowRemote', true)
  return loadConfig({ file: values.config, flags, env })
}

/** Takes arguments apart; positionals are refused unless allowed. Throws `UsageError`. */
export function parseOptions<O extends Options>(
  args: readonly string[],
  options: O,
  allowPositionals = false
): { values: OptionValues<O>; positionals: string[] } {
  if (args.some((each) => /^--token(=|$)/.test(each))) {
    throw new UsageError(
      'a token is never an argument, as everybody on the machine sees those; use --token-file or TOOLWRIGHT_TOKEN_FILE'
    )
  }
  const known = Object.entries(options).map(([name, { type, multiple = false }]) => [name, { type, multiple }] as const)
  try {
    const { values, positionals } = parseArgs({ args: [...args], options: Object.fromEntries(known), allowPositionals })
    return { values: values as OptionValues<O>, positionals }
  } catch (error) {
    throw new UsageError((error as Error).message)
  }
}

/** Runs a command's body and takes over its exit code; a failure is one message on standard error and the exit code of its kind. */
export async function runCommand(command: () => Promise<number | void> | number | void): Promise<void> {
  try {
    process.exitCode = (await command()) ?? 0
  } catch (error) {
    const { message, exitCode } = error as Error & { exitCode?: unknown }
    process.stderr.write(`toolwright: ${message}\n`)
    process.exit(typeof exitCode === 'number' ? exitCode : 1)
  }
}
