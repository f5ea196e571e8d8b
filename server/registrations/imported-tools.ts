import type { EventLog, TableWrite } from '../event-log/event-log.ts'
import type { RequestMapping } from '../executors/import/request-mapping.ts'
import type { JsonObject, JsonValue } from '../json/lossless.ts'
import { parseJson } from '../json/parse-text.js'
import { stringifyJson } from '../json/serialize.ts'
import type { Scope } from '../scopes/scope.ts'
import type { ScopeTree } from '../scopes/scope-tree.ts'
import { assertReached, type Author } from './check-change.ts'
import type { PinnedDefinition } from './definition-drift.ts'
import type { DefinitionPins, PinOrigin, QuarantinedTool } from './definition-pins.ts'
import type { StoredTool, WireRegistration } from './stored-tool.ts'
import type { WireTools } from './wire-tools.ts'

export interface ImportedToolsOptions {
  log: EventLog
  tree: ScopeTree
  tools: WireTools
  pins: DefinitionPins
  isTaken: (name: string, scope: Scope) => boolean
  /** Epoch milliseconds. */
  now: () => number
  warn: (message: string, details: Record<string, unknown>) => void
}

/** What became of the tools of an import, by name. */
export interface Registered {
  readonly scope: Scope
  readonly registered: ReadonlySet<string>
  /** Of the names given: hidden until somebody accepts them. */
  readonly quarantined: readonly QuarantinedTool[]
  /** Some other tool has the name. */
  readonly taken: readonly string[]
  /** More names than may ever be imported into one scope. */
  readonly beyond: readonly string[]
}

/** One for all documents: a changed title or address must not make another origin of it, whose tools would be new. */
const origin = 'openapi'
const maxNames = 2_000
const kind = 'import-waiting'

/**
 * Registers the tools that an import made, in the place of those that an earlier one made under the same names. One that says something
 * else than when it was first seen is hidden, and registered when an operator accepts it (reliability.md §1.3); what it is to be is stored
 * until then.
 */
export class ImportedTools {
  readonly #options: ImportedToolsOptions
  readonly #stopListening: () => void
  readonly #open = new Set<Promise<void>>()

  constructor(options: ImportedToolsOptions) {
    this.#options = options
    this.#stopListening = options.pins.onAccepted((scope, from, name) => {
      if (from !== origin) return Promise.resolve()
      const release = this.#release(scope, name)
        .catch((error: unknown) =>
          options.warn('an accepted tool is not registered', { err: error, scope, tool: name })
        )
        .finally(() => this.#open.delete(release))
      this.#open.add(release)
      return release
    })
  }

  /** All of those that may be, or none. Throws as `WireTools.register` does. */
  async register(author: Author, scopeId: string, given: readonly WireRegistration[]): Promise<Registered> {
    const { tree, tools, pins, log } = this.#options
    const scope = tree.get(scopeId)
    assertReached(author, scopeId, scope)
    const own = new Set(tools.of(scope).flatMap((stored) => (isImported(stored) ? [stored.tool.name] : [])))
    const taken = given
      .map(({ tool }) => tool.name)
      .filter((name) => !own.has(name) && this.#options.isTaken(name, scope))
    const free = given.filter(({ tool }) => !taken.includes(tool.name))
    const pinOrigin: PinOrigin = { scope: scope.id, origin, drift: 'quarantine', maxNames }
    const admitted = await pins.judge(pinOrigin, new Map(free.map((each) => [each.tool.name, pinnedDefinition(each)])))
    const quarantined = new Map(pins.quarantined(scope.id, origin).map((each) => [each.name, each]))
    const waiting = free.filter(({ tool }) => !admitted.has(tool.name) && quarantined.has(tool.name))
    const beyond = free.filter(({ tool }) => !admitted.has(tool.name) && !quarantined.has(tool.name))
    const good = free.filter(({ tool }) => admitted.has(tool.name))
    for (const { tool } of waiting) if (own.has(tool.name)) await tools.remove(author, scope.id, tool.name, isImported)
    const writes = [
      ...waiting.map((each) => writeWaiting(scope.id, each, this.#options.now())),
      ...good.map(({ tool }) => eraseWaiting(scope.id, tool.name))
    ]
    if (writes.length > 0) await log.append({ writes })
    if (good.length > 0) await tools.register(author, scope.id, good, isImported)
    return {
      scope,
      registered: admitted,
      quarantined: waiting.map(({ tool }) => quarantined.get(tool.name) as QuarantinedTool),
      taken,
      beyond: beyond.map(({ tool }) => tool.name)
    }
  }

  /** Hears of nothing any more, and waits for what is being registered. */
  async close(): Promise<void> {
    this.#stopListening()
    await Promise.all(this.#open)
  }

  async #release(scopeId: string, name: string): Promise<void> {
    const { log, tools, tree } = this.#options
    const [row] = await log.rows('registrations', { kind, scope: scopeId, name }, 1)
    if (row === undefined) return
    const given = parseJson(String(row['data'])) as unknown as WireRegistration
    // Whoever accepts need not be one who may register; who imported it was.
    await tools.register({ reach: tree.global, mayConfigure: true }, scopeId, [given], isImported)
    await log.append({ writes: [eraseWaiting(scopeId, name)] })
  }
}

const isImported = ({ tool }: Pick<StoredTool, 'tool'>): boolean => tool.origin === 'import'

/**
 * Beside the schemas what a call does: to which server it goes, as whom, and where each argument of it. The latter are among the `$defs`,
 * where what is added is no change.
 */
function pinnedDefinition({ tool, executor }: WireRegistration): PinnedDefinition {
  const { method, baseUrl, path, auth = null, parameters, body } = executor['request'] as unknown as RequestMapping
  const places: JsonObject = {}
  for (const { argument, ...place } of parameters) places[`argument:${argument}`] = place
  if (body !== undefined) places['argument-body'] = { ...body }
  return {
    description: tool.description,
    parameters: {
      ...tool.parameters,
      $defs: { ...(tool.parameters['$defs'] as JsonObject | undefined), ...places },
      'x-request': { method, baseUrl, path, auth }
    },
    ...(tool.output !== undefined && { output: tool.output.schema })
  }
}

const writeWaiting = (scope: string, given: WireRegistration, at: number): TableWrite => ({
  table: 'registrations',
  op: 'put',
  row: { kind, scope, name: given.tool.name, data: stringifyJson(given as unknown as JsonValue), created_at: at }
})

const eraseWaiting = (scope: string, name: string): TableWrite => ({
  table: 'registrations',
  op: 'delete',
  row: { kind, scope, name }
})
