import { isIP } from 'node:net'
import { homedir } from 'node:os'
import { dirname, resolve } from 'node:path'
import { Type } from '@sinclair/typebox'
import { Value, ValueErrorType } from '@sinclair/typebox/value'
import { deepFreeze } from '../json/deep-freeze.ts'
import { formatPath, type PathStep } from '../json/path.ts'
import { sealMcpServers } from './mcp-settings.ts'
import { type Config, type Setting, settings } from './schema.ts'
import { Secret } from './secret.ts'
import { type Given, readEnvironmentLayer, readFileLayer, readFlagLayer } from './sources.ts'

/** Everything that is wrong with a configuration, one line each. The process exits with 78 (EX_CONFIG). */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
  readonly exitCode = 78
  readonly problems: readonly string[]

  constructor(problems: readonly string[]) {
    super(`The configuration is not valid:\n${problems.map((problem) => `  - ${problem}`).join('\n')}`)
    this.problems = problems
  }
}

/** The frozen configuration, and for each setting's path where its value came from. */
export interface LoadedConfig {
  readonly config: Config
  readonly sources: ReadonlyMap<string, string>
}

/** What the process was given: `file` and `flags` from the command line, the latter by path as in `http.bodyLimitBytes`. */
export interface ConfigInput {
  readonly file?: string | undefined
  readonly flags?: ReadonlyMap<string, string | true>
  readonly env?: NodeJS.ProcessEnv
  readonly cwd?: string
}

/**
 * Puts the layers together: defaults, then the file (`--config`, else `TOOLWRIGHT_CONFIG`), the environment and the flags, each
 * over the ones before. Throws a `ConfigError` that names every problem; no secret is ever part of one.
 */
export function loadConfig({ file, flags = new Map(), env = {}, cwd = process.cwd() }: ConfigInput = {}): LoadedConfig {
  const path = file ?? env.TOOLWRIGHT_CONFIG
  const configFile = path === undefined ? undefined : resolve(cwd, path)
  const layers = [
    ...(configFile === undefined ? [] : [readFileLayer(configFile)]),
    readEnvironmentLayer(env),
    readFlagLayer(flags)
  ]
  const problems = layers.flatMap((layer) => layer.problems)
  const sources = new Map<string, string>()
  const config: Record<string, unknown> = {}
  for (const setting of settings.values()) {
    const given = layers.findLast((layer) => layer.given.has(setting.path))?.given.get(setting.path)
    sources.set(setting.path, given?.source ?? 'default')
    const value = given === undefined ? structuredClone(setting.schema.default) : given.value
    if (given !== undefined) problems.push(...check(setting, given))
    put(config, setting, place(setting, value, given?.source.startsWith('file ') ? dirname(configFile as string) : cwd))
  }
  if (problems.length === 0) problems.push(...contradictions(config as unknown as Config))
  if (problems.length > 0) throw new ConfigError(problems)
  for (const section of Object.values(config)) Object.freeze(section)
  return { config: Object.freeze(config) as unknown as Config, sources }
}

/** Settings that name files: `~` is the user's home, and a relative path starts at the file that states it, else at `cwd`. */
const pathSettings = new Set([
  'home',
  'auth.tokenFile',
  'httpTools.signingSecretFile',
  'plugins',
  'workspace.roots',
  'sandbox.hidden',
  'secrets.files'
])

function place(setting: Setting, value: unknown, base: string): unknown {
  if (Array.isArray(value)) {
    return deepFreeze(value.map((entry) => (pathSettings.has(setting.path) ? toPath(entry, base) : entry)))
  }
  if (pathSettings.has(setting.path)) return toPath(value, base)
  if (setting.schema.hidesValues === true) return deepFreeze(sealMcpServers(value))
  return setting.isSecret && typeof value === 'string' ? new Secret(value) : deepFreeze(value)
}

function toPath(value: unknown, base: string): unknown {
  return typeof value === 'string'
    ? resolve(
        base,
        value.replace(/^~(?=\/|$)/, () => homedir())
      )
    : value
}

function put(config: Record<string, unknown>, { path }: Setting, value: unknown): void {
  const [section, key] = path.split('.') as [string, string | undefined]
  if (key !== undefined) config[section] ??= {}
  if (value === undefined) return
  if (key === undefined) config[section] = value
  else (config[section] as Record<string, unknown>)[key] = value
}

function check({ path, schema, isSecret }: Setting, { value, source }: Given): string[] {
  const hides = isSecret || schema.hidesValues === true
  const told = hides ? '' : `, not ${JSON.stringify(value)}`
  if (Array.isArray(schema.enum)) {
    return schema.enum.includes(value) ? [] : [`${path} (${source}) is one of ${schema.enum.join(', ')}${told}`]
  }
  // A secret's schema is of a kind that TypeBox cannot check.
  const [error] = Value.Errors(isSecret ? Type.String({ minLength: 1 }) : schema, value)
  if (error === undefined) return []
  if (error.path === '') return [`${path} (${source}): ${error.message.toLowerCase()}${told}`]
  const place = formatPath(path, stepsOf(error.path, value))
  if (error.type === ValueErrorType.ObjectAdditionalProperties) return [`${place} (${source}): there is no such key`]
  if (error.type === ValueErrorType.ObjectRequiredProperty) return [`${place} (${source}): is missing`]
  const expected = error.type === ValueErrorType.Union && error.schema.description
  const message = expected ? `expected ${expected}` : error.message.toLowerCase()
  return [`${place} (${source}): ${message}${hides ? '' : `, not ${JSON.stringify(error.value)}`}`]
}

/** The steps of a JSON pointer into a value: a number where it goes through an array. */
function stepsOf(pointer: string, value: unknown): PathStep[] {
  let at = value
  return pointer
    .slice(1)
    .split('/')
    .map((token) => {
      const key = token.replaceAll('~1', '/').replaceAll('~0', '~')
      const step = Array.isArray(at) ? Number(key) : key
      at = (at as Record<string, unknown> | undefined)?.[key]
      return step
    })
}

/** What each value alone cannot show to be wrong. */
function contradictions(config: Config): string[] {
  const problems: string[] = []
  if (!config.allowRemote && !isLoopback(config.host)) {
    problems.push(
      `host ${JSON.stringify(config.host)} is reachable from other machines; set allowRemote (TOOLWRIGHT_ALLOW_REMOTE=true) if that is meant`
    )
  }
  if (config.auth.token && config.auth.tokenFile) problems.push('auth.token and auth.tokenFile are both set; set one')
  if (config.sandbox.required) {
    const { executor } = config.shell
    if (executor.endsWith('-local')) problems.push(`sandbox.required forbids shell.executor ${executor}`)
    if ([config.sandbox.mode, ...Object.values(config.sandbox.scopes)].includes('danger-full-access')) {
      problems.push('sandbox.required forbids the mode danger-full-access')
    }
  }
  if (Object.hasOwn(config.presets.table, 'custom')) problems.push('presets.table: the name custom is reserved')
  if (config.shell.timeoutMs > config.shell.maxTimeoutMs) problems.push('shell.timeoutMs is above shell.maxTimeoutMs')
  if (config.jobs.waitTimeoutMs > config.jobs.maxWaitTimeoutMs) {
    problems.push('jobs.waitTimeoutMs is above jobs.maxWaitTimeoutMs')
  }
  for (const host of config.allowedHosts) {
    if (!/^(\[[\da-f:.]+\]|[\w.-]+)(:(\d{1,5}|\*))?$/i.test(host)) {
      problems.push(`allowedHosts: ${JSON.stringify(host)} is no name, name:port or name:*`)
    }
  }
  for (const origin of config.allowedOrigins) {
    if (!URL.canParse(origin) || new URL(origin).origin !== origin) {
      problems.push(`allowedOrigins: ${JSON.stringify(origin)} is no origin such as https://ui.example.com`)
    }
  }
  return problems
}

/** Whether only this machine can reach the address. A name other than localhost may resolve to anything. */
export function isLoopback(host: string): boolean {
  if (host === 'localhost' || host === '::1') return true
  return isIP(host) === 4 && host.startsWith('127.')
}
