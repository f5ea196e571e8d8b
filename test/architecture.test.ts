import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative, resolve } from 'node:path'
import { describe, expect, it } from 'vitest'

const root = resolve(import.meta.dirname, '..')

/** Who may import what at run time: each folder under server/, and the folders it may import besides its own (docs/architecture.md). */
const mayImport: Record<string, readonly string[]> = {
  json: [],
  threads: [],
  processes: [],
  schema: ['threads', 'json'],
  scopes: ['schema', 'json'],
  tools: ['scopes', 'schema', 'json'],
  pipeline: ['tools', 'scopes', 'schema', 'json'],
  scheduler: ['pipeline', 'tools', 'scopes', 'schema', 'json'],
  'event-log': ['events', 'json'],
  events: ['event-log', 'json'],
  sessions: ['event-log', 'tools', 'scopes', 'json', 'backends/plans'],
  approvals: ['sessions', 'event-log', 'events', 'pipeline', 'tools', 'scopes', 'schema', 'json', 'backends/questions'],
  invocations: [
    'approvals',
    'scheduler',
    'sessions',
    'event-log',
    'events',
    'pipeline',
    'tools',
    'scopes',
    'schema',
    'json'
  ],
  'code-runtime': ['processes', 'json'],
  'code-mode': ['code-runtime', 'invocations', 'scheduler', 'pipeline', 'threads', 'tools', 'scopes', 'schema', 'json'],
  authoring: ['code-mode', 'invocations', 'scheduler', 'pipeline', 'tools', 'scopes', 'schema', 'json'],
  executors: ['backends/subprocess', 'backends/web', 'threads', 'event-log', 'tools', 'scopes', 'schema', 'json'],
  mcp: [
    'executors',
    'registrations',
    'invocations',
    'code-mode',
    'sessions',
    'backends/subprocess',
    'backends/web',
    'event-log',
    'events',
    'pipeline',
    'tools',
    'scopes',
    'schema',
    'json'
  ],
  presets: ['approvals', 'sessions', 'event-log', 'pipeline', 'backends/sandbox', 'scopes', 'json'],
  registrations: ['authoring', 'threads', 'event-log', 'tools', 'scopes', 'json'],
  config: ['json'],
  auth: ['event-log', 'config', 'scopes', 'json'],
  'backends/subprocess': ['processes', 'json'],
  'backends/shell': ['backends/subprocess', 'backends/sandbox', 'json'],
  'backends/sandbox': ['backends/subprocess', 'json'],
  'backends/files': ['json'],
  'backends/terminals': ['backends/subprocess', 'processes', 'json'],
  'backends/jobs': ['json'],
  'backends/search': ['backends/subprocess'],
  'backends/questions': [],
  'backends/web': ['threads'],
  'backends/plans': [],
  'backends/spill': ['json']
}

/** A type costs nothing at run time and cannot make a cycle there; these look further than the folder's own code may. */
const mayAlsoNameTypesOf: Record<string, readonly string[]> = {
  tools: ['pipeline'],
  registrations: ['executors'],
  sessions: ['events'],
  events: ['tools'],
  'event-log': ['tools'],
  'backends/search': ['backends/sandbox']
}

const sources = (folder: string): string[] =>
  readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.(ts|js)$/.test(entry.name) && !entry.name.endsWith('.d.ts'))
    .map((entry) => relative(root, join(entry.parentPath, entry.name)))

const imports = (file: string): { target: string; isType: boolean }[] =>
  [...readFileSync(join(root, file), 'utf8').matchAll(/^(?:import|export)\s+(type\s)?[^'"]*?from\s+'([^']+)'/gms)].map(
    (match) => ({
      isType: match[1] !== undefined,
      target: match[2] ?? ''
    })
  )

/** The folder of a file under server/: two levels below backends/, one elsewhere; undefined for server/*.ts. */
function folderOf(file: string): string | undefined {
  const [top, first, second, third] = file.split('/')
  if (top !== 'server' || second === undefined) return undefined
  return first === 'backends' && third !== undefined ? `backends/${second}` : first
}

describe('who may import whom (architecture.md §3)', () => {
  const roots = new Set(['server/app.ts', 'server/main.ts', 'server/cli.ts', 'server/services.ts'])

  it.each(sources('server').filter((file) => !roots.has(file) && !file.startsWith('server/commands/')))(
    '%s',
    (file) => {
      const own = folderOf(file)
      for (const { target, isType } of imports(file)) {
        expect(target, 'no web framework below the composition root').not.toMatch(/^@?fastify/)
        if (!target.startsWith('.')) continue
        const imported = relative(root, resolve(root, dirname(file), target))
        expect(imported, 'the engine imports no plugin and no route').not.toMatch(/^(plugins|routes)\//)
        const folder = folderOf(imported)
        if (folder === undefined || folder === own || own === undefined) continue
        const types = isType ? (mayAlsoNameTypesOf[own] ?? []) : []
        expect([...(mayImport[own] ?? []), ...types], `${own} imports ${imported}`).toContain(folder)
      }
    }
  )

  it.each(sources('plugins/tools').concat(sources('plugins/policies')))('%s', (file) => {
    for (const { target } of imports(file).filter((entry) => entry.target.startsWith('.'))) {
      const imported = relative(root, resolve(root, dirname(file), target))
      expect(imported).toMatch(
        /^(server\/(authoring|backends|errors|json|pipeline|tools|config)|plugins\/(define-plugin|tools|policies))/
      )
    }
  })

  it('a folder of the table exists, and each folder under server/ is in the table', () => {
    const found = new Set(
      sources('server')
        .map(folderOf)
        .filter((folder) => folder !== undefined)
        // The commands of the command line import everything, as main and cli do.
        .filter((folder) => folder !== 'commands')
    )
    expect([...found].filter((folder) => !(folder in mayImport))).toEqual([])
  })

  // The image has no development dependency: one that the server imports would only fail there.
  it('what the server imports is a dependency at run time', () => {
    const { dependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { dependencies: object }
    const isDeclared = (target: string): boolean =>
      Object.keys(dependencies).some((name) => target === name || target.startsWith(`${name}/`))
    const strangers = ['server', 'plugins', 'routes']
      .flatMap(sources)
      // Only what writes the API description loads it.
      .filter((file) => file !== 'plugins/engine/openapi.ts')
      .flatMap(imports)
      .filter(({ target, isType }) => !isType && !/^(\.|node:)/.test(target) && !isDeclared(target))
    expect(strangers).toEqual([])
  })

  it('no vague names (architecture.md §3, §6)', () => {
    const vague = /(^|[-/])(utils?|helpers?|common|misc|manager|service)([-.]|$)/i
    expect(
      [...sources('server'), ...sources('plugins'), ...sources('routes')].filter((file) => vague.test(file))
    ).toEqual([])
  })
})
