import { readFileSync } from 'node:fs'
import { ConfigError } from './load.ts'
import type { Config } from './schema.ts'
import { Secret } from './secret.ts'

/** A shorter one would strike out parts of ordinary words, and tell by the gaps what it is. */
const leastLength = 8

/**
 * The texts that must not appear in logs, events, frames and exports (api.md §9): what `secrets` names, and the settings that are
 * secrets themselves, with the preset token. Throws `ConfigError` for a name that leads nowhere: what was to be struck out would be shown.
 */
export function namedSecrets(config: Config, env: NodeJS.ProcessEnv, preset?: string): string[] {
  const problems: string[] = []
  const named = (source: string, text: string | undefined): string[] => {
    const secret = text?.trim()
    if (secret !== undefined && secret.length >= leastLength) return [secret]
    problems.push(`${source} ${secret === undefined ? 'is not there' : `has fewer than ${leastLength} characters`}`)
    return []
  }
  const texts = [
    ...config.secrets.environment.flatMap((name) => named(`secrets.environment: ${name}`, env[name])),
    ...config.secrets.files.flatMap((file) => named(`secrets.files: ${file}`, textOf(file)))
  ]
  if (problems.length > 0) throw new ConfigError(problems)
  // Those that are not there are told of by what uses them.
  const credentials = Object.values(config.httpTools.credentials).flatMap(
    ({ secretFile }) => textOf(secretFile)?.trim() ?? []
  )
  const own = [...secretSettings(config), ...credentials, ...(preset === undefined ? [] : [preset])]
  return [...texts, ...own.filter(({ length }) => length >= leastLength)]
}

function textOf(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return undefined
  }
}

/** Whatever the settings hold as a `Secret`, at any depth. */
function secretSettings(value: unknown): string[] {
  if (value instanceof Secret) return [value.reveal()]
  return typeof value === 'object' && value !== null ? Object.values(value).flatMap(secretSettings) : []
}
