import { canonicalJson } from '../../json/canonical.ts'
import type { JsonValue } from '../../json/lossless.ts'
import type { Scope } from '../../scopes/scope.ts'
import type { Undo } from '../../scopes/slots.ts'
import type { ToolDefinition } from '../../tools/definition.ts'
import type { Registry } from '../../tools/registry.ts'
import type { BridgedTool } from './bridged-tool.ts'

interface Registered {
  readonly tool: BridgedTool
  readonly key: string
  readonly undo: Undo
}

/** The tools of one server that are registered now. */
export class Generation {
  readonly #registry: Registry
  readonly #scope: Scope
  readonly #registered = new Map<string, Registered>()

  constructor(registry: Registry, scope: Scope) {
    this.#registry = registry
    this.#scope = scope
  }

  /** Public names with the server's own, in order of registration. */
  get tools(): { name: string; tool: string }[] {
    return [...this.#registered].map(([name, { tool }]) => ({ name, tool: tool.raw.name }))
  }

  /** Whether a tool still is what it was when it was registered. */
  has(tool: BridgedTool): boolean {
    const now = this.#registered.get(tool.publicName)
    return now !== undefined && (now.tool === tool || now.key === keyOf(tool))
  }

  /**
   * Puts a new list in the place of the old one; what is the same stays registered. A name that is taken leaves none of the server's
   * tools registered, and is thrown (backends.md §10).
   */
  swap(next: readonly BridgedTool[], define: (tool: BridgedTool) => ToolDefinition): void {
    const wanted = new Map(next.map((tool) => [tool.publicName, keyOf(tool)]))
    try {
      for (const [name, { key, undo }] of this.#registered) {
        if (wanted.get(name) === key) continue
        this.#registered.delete(name)
        undo()
      }
      for (const tool of next) {
        if (this.#registered.has(tool.publicName)) continue
        const undo = this.#registry.register(this.#scope, define(tool))
        this.#registered.set(tool.publicName, { tool, key: keyOf(tool), undo })
      }
    } catch (error) {
      this.clear()
      throw error
    }
  }

  clear(): void {
    const registered = [...this.#registered.values()]
    this.#registered.clear()
    for (const { undo } of registered) {
      try {
        undo()
      } catch {
        // A listener to changes threw: the tool is gone all the same.
      }
    }
  }
}

const keyOf = ({ raw }: BridgedTool): string => canonicalJson(raw as unknown as JsonValue)
