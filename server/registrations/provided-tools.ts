import type { Provider } from '../executors/provider.ts'
import type { WireToolFields } from '../executors/wire-tool.ts'
import { canonicalJson } from '../json/canonical.ts'
import type { JsonValue } from '../json/lossless.ts'
import type { Scope } from '../scopes/scope.ts'
import type { Author } from './check-change.ts'
import { InTurn } from './in-turn.ts'
import type { ExecutorSettings, StoredTool } from './stored-tool.ts'
import type { WireTools } from './wire-tools.ts'

/** A tool that was not registered as its provider wanted, and why. */
export interface RefusedTool {
  readonly name: string
  readonly error: unknown
}

/** The tools of a provider's list that can be registered, and the names of all on it. */
interface WantedTools {
  readonly list: readonly WireToolFields[]
  readonly named: ReadonlySet<string>
}

/** Whether a tool is one of this provider's. */
export const isToolOf = ({ executor }: Pick<StoredTool, 'executor'>, providerId: string): boolean =>
  executor.kind === 'client' && executor['providerId'] === providerId

/** Makes the tools that a provider has registered those of its latest list (api.md §5). */
export class ProvidedTools {
  readonly #tools: WireTools
  readonly #turns = new WeakMap<Provider, InTurn>()

  constructor(tools: WireTools) {
    this.#tools = tools
  }

  /**
   * Registers what is new or changed, leaves what is as it was, and takes away what is not on the list. One that is refused (its name is
   * somebody else's, its schema is not supported) stops none of the others, and an earlier one of its own under that name stays.
   * Lists of one provider are worked off in the order in which they came. Rejects with `StoreUnavailableError`, or `UNKNOWN_SCOPE`
   * when the scope goes meanwhile.
   */
  provide(author: Author, scope: Scope, provider: Provider, wanted: WantedTools): Promise<RefusedTool[]> {
    const turns = this.#turns.get(provider) ?? new InTurn()
    this.#turns.set(provider, turns)
    return turns.run(() => this.#converge(author, scope, provider, wanted))
  }

  async #converge(
    author: Author,
    scope: Scope,
    provider: Provider,
    { list, named }: WantedTools
  ): Promise<RefusedTool[]> {
    // Whose it is is stored with it, so that it is nobody else's after a restart either.
    const executor: ExecutorSettings = { kind: 'client', providerId: provider.id, owner: provider.owner }
    const isOwn = (stored: StoredTool): boolean => isToolOf(stored, provider.id)
    const before = new Map(
      this.#tools
        .of(scope)
        .filter(isOwn)
        .map((stored) => [stored.tool.name, stored])
    )
    // First, as they may be what a limit lacks.
    for (const name of before.keys()) {
      if (!named.has(name)) await this.#tools.remove(author, scope.id, name, isOwn)
    }
    const refused: RefusedTool[] = []
    for (const tool of list) {
      const former = before.get(tool.name)
      if (former !== undefined && isSame(former, { tool, executor })) continue
      try {
        await this.#tools.register(author, scope.id, [{ tool, executor }], isOwn)
      } catch (error) {
        refused.push({ name: tool.name, error })
      }
    }
    return refused
  }
}

const isSame = (a: Pick<StoredTool, 'tool' | 'executor'>, b: Pick<StoredTool, 'tool' | 'executor'>): boolean =>
  textOf(a) === textOf(b)

const textOf = ({ tool, executor }: Pick<StoredTool, 'tool' | 'executor'>): string =>
  canonicalJson([tool, executor] as unknown as JsonValue)
