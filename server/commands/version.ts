import { readFileSync } from 'node:fs'

/** The version of the package, from source and from `dist/` alike. */
export function version(): string {
  const places = ['../../package.json', '../../../package.json'].map((path) => new URL(path, import.meta.url))
  for (const place of places) {
    try {
      const { name, version } = JSON.parse(readFileSync(place, 'utf8')) as { name: string; version: string }
      if (name === 'toolwright') return version
    } catch {
      // Not there: it is the other place.
    }
  }
  return 'unknown'
}
