import type { LoadedConfig } from './load.ts'
import { settings } from './schema.ts'

/** Every setting by its path with its effective value, undefined where it has none, and its source. Secrets print masked. */
export function configRows({ config, sources }: LoadedConfig): { path: string; value: unknown; source: string }[] {
  return [...settings.values()].map(({ path }) => {
    const [section, key] = path.split('.') as [keyof typeof config, string | undefined]
    const value = key === undefined ? config[section] : (config[section] as Record<string, unknown>)[key]
    return { path, value, source: sources.get(path) as string }
  })
}

/** Every effective value with its source, one a line, secrets masked; what `toolwright config` prints. */
export function showConfig(loaded: LoadedConfig): string {
  const lines = configRows(loaded).map(
    ({ path, value, source }) =>
      [`${path} = ${value === undefined ? '(not set)' : JSON.stringify(value)}`, source] as const
  )
  const width = Math.min(60, Math.max(...lines.map(([text]) => text.length)))
  return lines.map(([text, source]) => `${text.padEnd(width)}  # ${source}\n`).join('')
}
