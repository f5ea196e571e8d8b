import type { LoadedConfig } from './load.ts'
import { settings } from './schema.ts'

/** Every effective value with its source, one a line, secrets masked; what `toolwright config` prints. */
export function showConfig({ config, sources }: LoadedConfig): string {
  const lines: [string, string][] = []
  for (const { path } of settings.values()) {
    const [section, key] = path.split('.') as [keyof typeof config, string | undefined]
    const value = key === undefined ? config[section] : (config[section] as Record<string, unknown>)[key]
    lines.push([`${path} = ${value === undefined ? '(not set)' : JSON.stringify(value)}`, sources.get(path) as string])
  }
  const width = Math.min(60, Math.max(...lines.map(([text]) => text.length)))
  return lines.map(([text, source]) => `${text.padEnd(width)}  # ${source}\n`).join('')
}
